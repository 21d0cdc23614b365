//! Masks of the answers of gRPC services.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use http_body::Frame;
use prost::bytes::{Buf, BufMut, Bytes, BytesMut};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::{Layer, Service};

use crate::mask::{FieldMask, HEADER};

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Tower layer of [`FieldMaskService`], for the services of a descriptor set.
#[derive(Clone)]
pub struct FieldMaskLayer {
    pool: DescriptorPool,
}

/// The `Debug` of a descriptor does not end when a message contains itself.
impl fmt::Debug for FieldMaskLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FieldMaskLayer").finish_non_exhaustive()
    }
}

impl FieldMaskLayer {
    /// Reads `descriptor_set`, an encoded `google.protobuf.FileDescriptorSet` with all imports.
    ///
    /// # Errors
    /// The set is incomplete.
    pub fn new(descriptor_set: &[u8]) -> Result<Self, prost_reflect::DescriptorError> {
        DescriptorPool::decode(descriptor_set).map(|pool| Self { pool })
    }

    /// The mask of a call of `path`; `None` when everything is kept, or no method of the set has this path.
    fn mask(&self, path: &str, headers: &HeaderMap) -> Result<Option<FieldMask>, Status> {
        let Some(text) = headers.get(HEADER) else { return Ok(None) };
        let Some(answer) = self.answer(path) else { return Ok(None) };
        let text = text.to_str().map_err(|_| refused("the field mask is not ASCII"))?;
        FieldMask::parse(text, &answer).map_err(|error| refused(error.to_string()))
    }

    /// The type of the answers of a method.
    fn answer(&self, path: &str) -> Option<MessageDescriptor> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let service = self.pool.get_service_by_name(service)?;
        let method = service.methods().find(|of| of.name() == method)?;
        Some(method.output())
    }
}

/// The mask is wrong: its header is named as a field of the request.
fn refused(sentence: impl Into<String>) -> Status {
    let sentence = sentence.into();
    let details = ErrorDetails::with_bad_request_violation(HEADER, &sentence);
    Status::with_error_details(Code::InvalidArgument, sentence, details)
}

impl<S> Layer<S> for FieldMaskLayer {
    type Service = FieldMaskService<S>;

    fn layer(&self, inner: S) -> FieldMaskService<S> {
        FieldMaskService { inner, layer: self.clone() }
    }
}

/// gRPC services whose answers have the fields that the mask of a call names.
#[derive(Debug, Clone)]
pub struct FieldMaskService<S> {
    inner: S,
    layer: FieldMaskLayer,
}

impl<S, A, B> Service<Request<A>> for FieldMaskService<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let mask = match self.layer.mask(request.uri().path(), request.headers()) {
            Ok(mask) => mask,
            Err(status) => return Box::pin(std::future::ready(Ok(status.into_http()))),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?.map(Body::new);
            Ok(match mask {
                Some(mask) => response.map(|body| Body::new(MaskedBody { body, mask, received: BytesMut::new() })),
                None => response,
            })
        })
    }
}

/// The messages of `body` without what the mask does not have. The services here compress none.
struct MaskedBody {
    body: Body,
    mask: FieldMask,
    /// The begin of a message whose rest is to come.
    received: BytesMut,
}

impl MaskedBody {
    /// The messages that are complete, masked.
    fn complete(&mut self) -> Result<BytesMut, Status> {
        let mut masked = BytesMut::new();
        while let Some(message) = self.next_message() {
            let retained = self.mask.retain_encoded(&message);
            let retained = retained.ok_or_else(|| Status::internal("an answer is no message; report this mistake"))?;
            masked.put_u8(0);
            masked.put_u32(u32::try_from(retained.len()).unwrap_or(u32::MAX));
            masked.extend_from_slice(&retained);
        }
        Ok(masked)
    }

    fn next_message(&mut self) -> Option<Bytes> {
        let mut length = self.received.get(1..PREFIX_BYTES)?;
        let end = PREFIX_BYTES + usize::try_from(length.get_u32()).ok()?;
        if self.received.len() < end {
            return None;
        }
        let mut message = self.received.split_to(end).freeze();
        message.advance(PREFIX_BYTES);
        Some(message)
    }
}

impl http_body::Body for MaskedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            self.received.extend_from_slice(&data);
            let masked = self.complete()?;
            if !masked.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(masked.freeze()))));
            }
        }
    }

    /// The headers of an error have no message behind them: HTTP/2 ends the stream with them.
    fn is_end_stream(&self) -> bool {
        self.received.is_empty() && self.body.is_end_stream()
    }
}
