//! Claims about derived tensors, and the trust domains in which they count.

use tetris_store_layout::{
    DerivedKey, Digest, MAX_TRANSFORM_NAME, ObjectRef, TensorId, TrustDomain,
};

use super::object;
use crate::{ProtocolError, Reader, Writer};

/// Kind of a domain that stands for none.
const NONE: u32 = u32::MAX;

/// A client's word that a transform of a tensor gives an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedClaim {
    /// The object, which is in the store.
    pub object: ObjectRef,
    /// The tensor that it is derived from.
    pub source: TensorId,
    /// Version of the transform.
    pub version: u32,
    /// Name of the transform; at most [`MAX_TRANSFORM_NAME`] bytes.
    pub transform: String,
}

impl DerivedClaim {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        let to = object::encode(to, &self.object).bytes(&self.source.0.0);
        to.u32(self.version)
            .text(&self.transform, MAX_TRANSFORM_NAME)
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        let object = object::decode(&mut from)?;
        let source = TensorId(Digest(from.bytes()?));
        Ok(Self {
            object,
            source,
            version: from.u32()?,
            transform: from.last_text_within(MAX_TRANSFORM_NAME)?,
        })
    }
}

/// A derived object that a client is about to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// The tensor that it is derived from.
    pub source: TensorId,
    /// Version of the transform.
    pub version: u32,
    /// Name of the transform; at most [`MAX_TRANSFORM_NAME`] bytes.
    pub transform: String,
}

impl BuildRequest {
    /// The request for what `key` derives to, in the domain of the client.
    pub fn of(key: &DerivedKey) -> Self {
        Self {
            source: key.source(),
            version: key.version(),
            transform: key.transform().to_owned(),
        }
    }

    pub(super) fn encode(&self, to: Writer) -> Writer {
        let to = to.bytes(&self.source.0.0).u32(self.version);
        to.text(&self.transform, MAX_TRANSFORM_NAME)
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            source: TensorId(Digest(from.bytes()?)),
            version: from.u32()?,
            transform: from.last_text_within(MAX_TRANSFORM_NAME)?,
        })
    }
}

pub(super) fn encode_domain(to: Writer, domain: Option<TrustDomain>) -> Writer {
    let (kind, number) = domain.map_or((NONE, 0), TrustDomain::code);
    to.u32(kind).u32(number)
}

pub(super) fn decode_domain(from: &mut Reader<'_>) -> Result<Option<TrustDomain>, ProtocolError> {
    match (from.u32()?, from.u32()?) {
        (NONE, 0) => Ok(None),
        (kind, number) => match TrustDomain::from_code(kind, number) {
            Some(domain) => Ok(Some(domain)),
            None => Err(from.value("the kind of a trust domain, with its number", kind.into())),
        },
    }
}
