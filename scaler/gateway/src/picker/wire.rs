//! Messages of external processing and of health checks: `proto/`.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

tonic::include_proto!("envoy.service.ext_proc.v3");

pub use processing_request::Request as Part;
pub use processing_response::Response as Answer;
pub use value::Kind;

/// Health checks.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
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
