//! The gRPC codec of messages whose type is known at run time.

use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes any message, and decodes messages of one type.
#[derive(Clone)]
pub(crate) struct DynamicCodec {
    decoded: MessageDescriptor,
}

impl DynamicCodec {
    pub(crate) fn new(decoded: MessageDescriptor) -> Self {
        Self { decoded }
    }
}

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(format!("the message cannot be encoded: {error}")))
    }
}

impl Decoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let decoded = DynamicMessage::decode(self.decoded.clone(), buffer);
        let name = self.decoded.full_name();
        decoded.map(Some).map_err(|error| Status::internal(format!("the message is not a {name}: {error}")))
    }
}

/// Encodes any message, and leaves messages encoded.
#[derive(Clone)]
pub(crate) struct EncodedCodec(DynamicCodec);

impl EncodedCodec {
    pub(crate) fn new(decoded: MessageDescriptor) -> Self {
        Self(DynamicCodec::new(decoded))
    }
}

impl Codec for EncodedCodec {
    type Encode = DynamicMessage;
    type Decode = Bytes;
    type Encoder = DynamicCodec;
    type Decoder = Self;

    fn encoder(&mut self) -> DynamicCodec {
        self.0.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Decoder for EncodedCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}
