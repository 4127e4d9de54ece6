//! Messages of gRPC, whose shape is checked before they are decoded.

use prost::Message as _;
use prost::bytes::Buf as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

use super::shape;
use super::wire::{ProcessingRequest, ProcessingResponse};

/// The codec of the external processor.
#[derive(Debug, Default)]
pub struct BoundedCodec(ProstCodec<ProcessingResponse, ProcessingRequest>);

impl Codec for BoundedCodec {
    type Encode = ProcessingResponse;
    type Decode = ProcessingRequest;
    type Encoder = <ProstCodec<ProcessingResponse, ProcessingRequest> as Codec>::Encoder;
    type Decoder = BoundedDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> BoundedDecoder {
        BoundedDecoder
    }
}

/// Decodes messages of a bounded shape.
#[derive(Debug)]
pub struct BoundedDecoder;

impl Decoder for BoundedDecoder {
    type Item = ProcessingRequest;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<ProcessingRequest>, Status> {
        let message = buffer.copy_to_bytes(buffer.remaining());
        shape::check(&message).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let message = ProcessingRequest::decode(message);
        message
            .map(Some)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
