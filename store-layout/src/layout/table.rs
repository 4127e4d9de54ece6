//! Parts of a layout's table, read where it lies in the store.

use super::{
    HEADER_LEN, LayoutError, MAGIC, MAX_LAYOUT_LEN, MAX_LAYOUT_SOURCES, OBJECT_LEN, SOURCE_LEN,
};
use crate::Access;
use crate::codec::Reader;
use crate::digest::{Digest, ObjectId, TensorId};
use crate::error::DecodeError;
use crate::manifest::MAX_OBJECTS;
use crate::mapping::Mapping;
use crate::store::{ObjectRef, Store};

/// The table of a layout, mapped. Its parts are read in place, so it takes no memory however large it is.
///
/// Only the lengths of its parts are checked. Use [`Store::layout`] to get tensors that are true of the engine's model.
#[derive(Debug)]
pub struct LayoutTable {
    bytes: Mapping,
    sources: usize,
    objects: usize,
}

impl Store {
    /// Maps the table of a layout; `None` if the object is not in the store.
    ///
    /// # Errors
    /// [`LayoutError::Map`] as of [`Store::map`]; [`LayoutError::Invalid`] if the parts of the table are not within it.
    pub fn layout_table(&self, object: &ObjectRef) -> Result<Option<LayoutTable>, LayoutError> {
        if object.len > MAX_LAYOUT_LEN {
            let expected = format!("at most {MAX_LAYOUT_LEN} bytes");
            return Err(DecodeError::field("layout length", expected, object.len).into());
        }
        let Some(bytes) = self.map(object, Access::ReadOnly)? else {
            return Ok(None);
        };
        let mut reader = Reader::new(&bytes, "layout");
        reader.preamble(MAGIC)?;
        let sources = within("source count", reader.u32()?, MAX_LAYOUT_SOURCES)?;
        let objects = within("object count", reader.u32()?, MAX_OBJECTS)?;
        let end = HEADER_LEN
            .saturating_add(sources.saturating_mul(SOURCE_LEN))
            .saturating_add(objects.saturating_mul(OBJECT_LEN));
        if end > bytes.len() {
            let expected = format!("at least {end} bytes for its sources and objects");
            return Err(DecodeError::field("layout length", expected, bytes.len()).into());
        }
        Ok(Some(LayoutTable {
            bytes,
            sources,
            objects,
        }))
    }
}

impl LayoutTable {
    /// Number of source tensors.
    pub const fn source_count(&self) -> usize {
        self.sources
    }

    /// Number of objects behind the table.
    pub const fn object_count(&self) -> usize {
        self.objects
    }

    /// The source tensors, ascending.
    pub fn sources(&self) -> impl Iterator<Item = TensorId> + '_ {
        (0..self.sources).filter_map(|index| self.source(index))
    }

    /// Returns true if the table has this source tensor, by binary search.
    pub fn has_source(&self, tensor: &TensorId) -> bool {
        let (mut begin, mut end) = (0, self.sources);
        while begin < end {
            let middle = begin.midpoint(end);
            match self.source(middle) {
                Some(found) if found == *tensor => return true,
                Some(found) if found < *tensor => begin = middle.saturating_add(1),
                Some(_) => end = middle,
                None => return false,
            }
        }
        false
    }

    /// The objects behind the table, in its order.
    pub fn objects(&self) -> impl Iterator<Item = ObjectRef> + '_ {
        let begin = HEADER_LEN.saturating_add(self.sources.saturating_mul(SOURCE_LEN));
        (0..self.objects).filter_map(move |index| {
            let at = begin.saturating_add(index.saturating_mul(OBJECT_LEN));
            let bytes = self.bytes.get(at..at.saturating_add(OBJECT_LEN))?;
            let mut reader = Reader::new(bytes, "layout");
            Some(ObjectRef {
                id: ObjectId(Digest(reader.array().ok()?)),
                len: reader.u64().ok()?,
                crc: reader.u32().ok()?,
            })
        })
    }

    fn source(&self, index: usize) -> Option<TensorId> {
        let at = HEADER_LEN.saturating_add(index.saturating_mul(SOURCE_LEN));
        let bytes = self.bytes.get(at..at.saturating_add(SOURCE_LEN))?;
        Some(TensorId(Digest(bytes.try_into().ok()?)))
    }
}

fn within(field: &'static str, count: u32, limit: usize) -> Result<usize, DecodeError> {
    let count = count as usize;
    if count > limit {
        let expected = format!("at most {limit}");
        return Err(DecodeError::field(field, expected, count));
    }
    Ok(count)
}
