//! `AgentService` with a limit on the changes of each message before it is decoded.
//!
//! An empty change takes two bytes on the wire and some hundreds decoded: four megabytes would
//! decode to a gigabyte before any accounting. So changes are counted on the wire.

use std::convert::Infallible;
use std::task::{Context, Poll};

use fleetwright_proto::v1;
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use fleetwright_rpc::v1::agent_service_server::AgentService;
use futures::future::BoxFuture;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Service;

use super::Sessions;

/// Maximum changes per message; a limit of the protocol.
pub(crate) const MESSAGE_CHANGES: usize = 1_000;

/// gRPC service that agents connect to.
#[derive(Debug, Clone)]
pub(crate) struct ConnectService(Sessions);

impl Sessions {
    /// Service to be added to [`transport`](super::transport).
    #[must_use]
    pub(crate) fn service(&self) -> ConnectService {
        ConnectService(self.clone())
    }
}

impl NamedService for ConnectService {
    const NAME: &'static str = "fleetwright.v1.AgentService";
}

impl Service<http::Request<Body>> for ConnectService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// The service has one method; the auth middleware rejects all other paths.
    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let connect = Connect(self.0.clone());
        Box::pin(async move {
            let grpc = Grpc::new(CountingCodec(ProstCodec::default()));
            let mut grpc = grpc.apply_max_message_size_config(Some(MAX_MESSAGE_BYTES), Some(MAX_MESSAGE_BYTES));
            Ok(grpc.streaming(connect, request).await)
        })
    }
}

struct Connect(Sessions);

impl StreamingService<v1::ConnectRequest> for Connect {
    type Response = v1::ConnectResponse;
    type ResponseStream = <Sessions as AgentService>::ConnectStream;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<v1::ConnectRequest>>) -> Self::Future {
        let sessions = self.0.clone();
        Box::pin(async move { sessions.connect(request).await })
    }
}

type Plain = ProstCodec<v1::ConnectResponse, v1::ConnectRequest>;

/// Prost codec that counts changes before it decodes.
struct CountingCodec(Plain);

/// Decoder of [`CountingCodec`].
struct CountingDecoder(<Plain as Codec>::Decoder);

impl Codec for CountingCodec {
    type Encode = v1::ConnectResponse;
    type Decode = v1::ConnectRequest;
    type Encoder = <Plain as Codec>::Encoder;
    type Decoder = CountingDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> CountingDecoder {
        CountingDecoder(self.0.decoder())
    }
}

impl Decoder for CountingDecoder {
    type Item = v1::ConnectRequest;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<v1::ConnectRequest>, Status> {
        let count = changes(message.chunk());
        if count > MESSAGE_CHANGES {
            let text = format!("changes in a message: {count} exceed the limit of {MESSAGE_CHANGES}");
            return Err(Status::resource_exhausted(text));
        }
        self.0.decode(message)
    }
}

/// Number of changes in an encoded `ConnectRequest`: in a delta and in snapshot chunks.
fn changes(request: &[u8]) -> usize {
    const SNAPSHOT: u32 = 2;
    const DELTA: u32 = 3;
    const CHUNK: u32 = 3;
    const OF_CHUNK: u32 = 1;
    const OF_DELTA: u32 = 2;
    let in_delta = parts(request, DELTA).map(|delta| parts(delta, OF_DELTA).count());
    let chunks = parts(request, SNAPSHOT).flat_map(|snapshot| parts(snapshot, CHUNK));
    in_delta.chain(chunks.map(|chunk| parts(chunk, OF_CHUNK).count())).sum()
}

/// Values of field `wanted` of an encoded message, up to the first malformed byte; the decoder
/// reports the malformed rest.
fn parts(mut message: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while message.has_remaining() {
            let (field, wire) = decode_key(&mut message).ok()?;
            let length = match wire {
                WireType::Varint => decode_varint(&mut message).map(|_| 0).ok()?,
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::LengthDelimited => usize::try_from(decode_varint(&mut message).ok()?).ok()?,
                // The protocol has no groups.
                WireType::StartGroup | WireType::EndGroup => return None,
            };
            let (value, rest) = message.split_at_checked(length)?;
            message = rest;
            if field == wanted && wire == WireType::LengthDelimited {
                return Some(value);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use v1::connect_request::Message;
    use v1::snapshot::Part;

    use super::*;

    fn request(message: Message) -> Vec<u8> {
        v1::ConnectRequest { message: Some(message) }.encode_to_vec()
    }

    fn empty_changes(count: usize) -> Vec<v1::Change> {
        vec![v1::Change { change: None }; count]
    }

    #[test]
    fn changes_are_counted_on_the_wire() {
        let delta = request(Message::Delta(v1::Delta { sequence: 7, changes: empty_changes(1_001) }));
        let chunk = Part::Chunk(v1::SnapshotChunk { changes: empty_changes(3), index: 9 });
        let snapshot = request(Message::Snapshot(v1::Snapshot { id: 1, part: Some(chunk) }));
        let twice = [snapshot.clone(), delta.clone()].concat();
        let heartbeat = request(Message::Heartbeat(v1::Heartbeat { last_sequence: 1_000_000, sent_at_ms: 0 }));
        assert_eq!([&delta, &snapshot, &twice, &heartbeat].map(|bytes| changes(bytes)), [1_001, 3, 1_004, 0]);
        // A million empty changes are two megabytes.
        assert_eq!(
            changes(&request(Message::Delta(v1::Delta { sequence: 1, changes: empty_changes(1_000_000) }))),
            1_000_000
        );
    }

    #[test]
    fn malformed_messages_are_left_to_the_decoder() {
        let delta = request(Message::Delta(v1::Delta { sequence: 7, changes: empty_changes(5) }));
        for end in 0..delta.len() {
            assert!(changes(&delta[..end]) <= 5);
        }
        assert_eq!(changes(&[0xff; 32]), 0);
    }
}
