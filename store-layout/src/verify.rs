//! Checking that an object's bytes are what its name says (INV-1).

use crate::error::MapError;
use crate::hash::{SEGMENT_BYTES, SegmentHasher, combine, segment_count};
use crate::mapping::Access;
use crate::store::{ObjectRef, Store};

/// How thoroughly to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyDepth {
    /// CRC-32 only, which finds any accidental damage to within one in 2^32.
    Crc,
    /// CRC-32 and BLAKE3-256.
    Full,
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// What has the name is not a regular file of the expected length.
    Shape {
        /// What was found, in words.
        found: String,
    },
    /// The CRC-32 differs.
    Crc {
        /// The value computed.
        found: u32,
    },
    /// The BLAKE3-256 differs.
    Id {
        /// The value computed.
        found: crate::digest::ObjectId,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shape { found } => write!(f, "found {found}"),
            Self::Crc { found } => write!(f, "its CRC-32 is {found:08x}"),
            Self::Id { found } => write!(f, "its BLAKE3-256 is {found}"),
        }
    }
}

impl Store {
    /// Checks an object's bytes. `Ok(None)` when the object is not there, `Ok(Some(None))` when it
    /// is sound.
    ///
    /// The object is referenced while it is checked.
    pub fn verify(
        &self,
        object: &ObjectRef,
        depth: VerifyDepth,
    ) -> Result<Option<Option<Fault>>, MapError> {
        let mapping = match self.map(object, Access::ReadOnly) {
            Ok(Some(mapping)) => mapping,
            Ok(None) => return Ok(None),
            Err(MapError::Damaged { found, .. }) => return Ok(Some(Some(Fault::Shape { found }))),
            Err(error) => return Err(error),
        };
        if depth == VerifyDepth::Crc {
            let found = crc32fast::hash(&mapping);
            return Ok(Some((found != object.crc).then_some(Fault::Crc { found })));
        }
        let digests: Vec<_> = mapping
            .chunks(SEGMENT_BYTES as usize)
            .chain((object.len == 0).then_some(&[][..]))
            .zip(0..segment_count(object.len))
            .map(|(bytes, index)| {
                let mut hasher = SegmentHasher::new(object.len, index);
                hasher.update(bytes);
                hasher.finish()
            })
            .collect();
        let fault = match combine(&digests) {
            Some((id, _)) if id != object.id => Some(Fault::Id { found: id }),
            Some((_, crc)) if crc != object.crc => Some(Fault::Crc { found: crc }),
            _ => None,
        };
        Ok(Some(fault))
    }
}
