//! Messages of Envoy's external processing: package `envoy.service.ext_proc.v3`, with the field
//! numbers of `envoy/service/ext_proc/v3/external_processor.proto`,
//! `envoy/config/core/v3/base.proto` and `google/protobuf/struct.proto`
//! (<https://github.com/envoyproxy/data-plane-api>). Only fields that the picker uses are here. The
//! decoder skips the others, as protobuf requires.

use std::collections::HashMap;

use bytes::Bytes;

/// A message of the data plane.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessingRequest {
    /// Part of the request or response.
    #[prost(oneof = "Part", tags = "2, 3, 4, 5, 6, 7")]
    pub request: Option<Part>,
    /// Metadata of the request, by namespace.
    #[prost(message, optional, tag = "8")]
    pub metadata_context: Option<Metadata>,
    /// True if the data plane ignores all answers.
    #[prost(bool, tag = "10")]
    pub observability_mode: bool,
    /// Modes of bodies, in the first message alone.
    #[prost(message, optional, tag = "11")]
    pub protocol_config: Option<ProtocolConfiguration>,
}

/// A part of a request or response.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Part {
    /// Head of the request.
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    /// Head of the response.
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    /// Part of the request's body.
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    /// Part of the response's body.
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    /// Trailers of the request.
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    /// Trailers of the response.
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

/// Modes of bodies.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProtocolConfiguration {
    /// Mode of the request's body.
    #[prost(enumeration = "BodyMode", tag = "1")]
    pub request_body_mode: i32,
    /// Mode of the response's body.
    #[prost(enumeration = "BodyMode", tag = "2")]
    pub response_body_mode: i32,
}

/// The way in which a data plane sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum BodyMode {
    /// Not at all.
    None = 0,
    /// In parts, each with an answer.
    Streamed = 1,
    /// Whole.
    Buffered = 2,
    /// Whole up to a limit of the data plane.
    BufferedPartial = 3,
    /// In parts, which the answers carry back.
    FullDuplexStreamed = 4,
    /// By messages of gRPC, which the answers carry back.
    Grpc = 5,
}

/// Head of a request or response.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HttpHeaders {
    /// Headers, with HTTP/2's pseudo-headers.
    #[prost(message, optional, tag = "1")]
    pub headers: Option<HeaderMap>,
    /// True if there is no body.
    #[prost(bool, tag = "3")]
    pub end_of_stream: bool,
}

/// Part of a body.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HttpBody {
    /// Bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub body: Bytes,
    /// True if nothing follows.
    #[prost(bool, tag = "2")]
    pub end_of_stream: bool,
}

/// Trailers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HttpTrailers {
    /// The trailers.
    #[prost(message, optional, tag = "1")]
    pub trailers: Option<HeaderMap>,
}

/// Headers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderMap {
    /// The headers.
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<HeaderValue>,
}

/// A header.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderValue {
    /// Name, in lower case.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value of older data planes.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Value.
    #[prost(bytes = "bytes", tag = "3")]
    pub raw_value: Bytes,
}

/// Metadata of a request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// Entries by namespace.
    #[prost(map = "string, message", tag = "1")]
    pub filter_metadata: HashMap<String, Struct>,
}

/// An unstructured object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    /// Values by name.
    #[prost(map = "string, message", tag = "1")]
    pub fields: HashMap<String, Value>,
}

/// An unstructured value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    /// The value; `None` for kinds that the picker does not use.
    #[prost(oneof = "Kind", tags = "3, 5, 6")]
    pub kind: Option<Kind>,
}

/// Kinds of unstructured values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    /// A text.
    #[prost(string, tag = "3")]
    Text(String),
    /// An object.
    #[prost(message, tag = "5")]
    Object(Struct),
    /// A list.
    #[prost(message, tag = "6")]
    List(ListValue),
}

/// An unstructured list.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// Its values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

/// A message of the picker.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessingResponse {
    /// The answer to a part.
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub response: Option<Answer>,
    /// Metadata for filters and load balancing of the data plane.
    #[prost(message, optional, tag = "8")]
    pub dynamic_metadata: Option<Struct>,
}

/// An answer to a part.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Answer {
    /// To the head of the request.
    #[prost(message, tag = "1")]
    RequestHeaders(HeadersResponse),
    /// To the head of the response.
    #[prost(message, tag = "2")]
    ResponseHeaders(HeadersResponse),
    /// To a part of the request's body.
    #[prost(message, tag = "3")]
    RequestBody(BodyResponse),
    /// To a part of the response's body.
    #[prost(message, tag = "4")]
    ResponseBody(BodyResponse),
    /// To the trailers of the request.
    #[prost(message, tag = "5")]
    RequestTrailers(TrailersResponse),
    /// To the trailers of the response.
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersResponse),
    /// A response for the client, in place of an instance's.
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// Answer to a head.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeadersResponse {
    /// Changes.
    #[prost(message, optional, tag = "1")]
    pub response: Option<CommonResponse>,
}

/// Answer to a part of a body.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BodyResponse {
    /// Changes.
    #[prost(message, optional, tag = "1")]
    pub response: Option<CommonResponse>,
}

/// Answer to trailers: no changes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TrailersResponse {}

/// Changes of a request or response.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CommonResponse {
    /// Changes of the head.
    #[prost(message, optional, tag = "2")]
    pub header_mutation: Option<HeaderMutation>,
    /// Change of the body.
    #[prost(message, optional, tag = "3")]
    pub body_mutation: Option<BodyMutation>,
    /// True if the data plane must choose the route again.
    #[prost(bool, tag = "5")]
    pub clear_route_cache: bool,
}

/// Changes of headers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderMutation {
    /// Headers to set.
    #[prost(message, repeated, tag = "1")]
    pub set_headers: Vec<HeaderValueOption>,
    /// Headers to remove.
    #[prost(string, repeated, tag = "2")]
    pub remove_headers: Vec<String>,
}

/// A header to set.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HeaderValueOption {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    /// Treatment of a header that is there.
    #[prost(enumeration = "AppendAction", tag = "3")]
    pub append_action: i32,
}

/// Treatment of a header that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum AppendAction {
    /// Stays beside the new one.
    AppendIfExistsOrAdd = 0,
    /// Stays alone.
    AddIfAbsent = 1,
    /// Goes.
    OverwriteIfExistsOrAdd = 2,
}

/// Change of a body.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BodyMutation {
    /// The part that goes on, for [`BodyMode::FullDuplexStreamed`].
    #[prost(message, optional, tag = "3")]
    pub streamed_response: Option<HttpBody>,
}

/// A response for the client.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImmediateResponse {
    /// Its status.
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    /// Its headers.
    #[prost(message, optional, tag = "2")]
    pub headers: Option<HeaderMutation>,
    /// Its body.
    #[prost(bytes = "bytes", tag = "3")]
    pub body: Bytes,
    /// Its status for clients of gRPC.
    #[prost(message, optional, tag = "4")]
    pub grpc_status: Option<GrpcStatus>,
    /// Reason, for the data plane's logs.
    #[prost(string, tag = "5")]
    pub details: String,
}

/// A status of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HttpStatus {
    /// The code.
    #[prost(int32, tag = "1")]
    pub code: i32,
}

/// A status of gRPC.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GrpcStatus {
    /// The code.
    #[prost(uint32, tag = "1")]
    pub status: u32,
}

impl Part {
    /// Returns true for parts of a response.
    pub const fn is_of_response(&self) -> bool {
        matches!(
            self,
            Self::ResponseHeaders(_) | Self::ResponseBody(_) | Self::ResponseTrailers(_)
        )
    }
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            kind: Some(Kind::Text(text.into())),
        }
    }
}

impl HeaderValue {
    /// Bytes of the value, from the field that the data plane uses.
    pub fn bytes(&self) -> &[u8] {
        if self.raw_value.is_empty() {
            self.value.as_bytes()
        } else {
            &self.raw_value
        }
    }
}
