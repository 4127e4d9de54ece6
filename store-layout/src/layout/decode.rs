//! Reading a table from bytes that may be hostile.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ATTRIBUTE_LEN, Layout, LayoutPlace, LayoutTensor, MAGIC, MAX_LAYOUT_ATTRIBUTES,
    MAX_LAYOUT_RANK, MAX_LAYOUT_SOURCES, MAX_LAYOUT_TENSORS, NONE, OBJECT_LEN, SOURCE_LEN,
    TENSOR_LEN,
};
use crate::codec::Reader;
use crate::digest::{Digest, ObjectId, TensorId};
use crate::dtype::Dtype;
use crate::error::DecodeError;
use crate::manifest::MAX_OBJECTS;
use crate::store::ObjectRef;

impl Layout {
    /// Decodes and checks a table.
    ///
    /// Accepts exactly the bytes that [`Layout::encode`] produces for some valid layout.
    ///
    /// # Errors
    /// The first field that is not as LAYOUT.md 3.7 demands.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "layout");
        reader.preamble(MAGIC)?;
        let limit = MAX_LAYOUT_SOURCES;
        let sources = Count::read(&mut reader, "source count", limit, SOURCE_LEN)?;
        let objects = Count::read(&mut reader, "object count", MAX_OBJECTS, OBJECT_LEN)?;
        let tensors = Count::read(&mut reader, "tensor count", MAX_LAYOUT_TENSORS, TENSOR_LEN)?;
        let limit = MAX_LAYOUT_ATTRIBUTES;
        let attributes = Count::read(&mut reader, "attribute count", limit, ATTRIBUTE_LEN)?;
        let layout = Self {
            sources: sources_of(&sources, &mut reader)?,
            objects: objects.entries(&mut reader, object)?,
            tensors: tensors.entries(&mut reader, tensor)?,
            attributes: attributes_of(&attributes, &mut reader)?,
        };
        if reader.remaining() != 0 {
            let found = format!("{} bytes more", reader.remaining());
            return Err(DecodeError::field(
                "end of the layout",
                "no byte after the last attribute",
                found,
            ));
        }
        layout.check()?;
        Ok(layout)
    }
}

/// A number of entries that is within its limit.
struct Count {
    field: &'static str,
    entries: usize,
    /// Fewest bytes of an entry.
    least: usize,
}

impl Count {
    fn read(
        reader: &mut Reader<'_>,
        field: &'static str,
        limit: usize,
        least: usize,
    ) -> Result<Self, DecodeError> {
        let entries = reader.u32()? as usize;
        if entries > limit {
            return Err(DecodeError::field(
                field,
                format!("at most {limit}"),
                entries,
            ));
        }
        Ok(Self {
            field,
            entries,
            least,
        })
    }

    /// Reads the entries. The bytes that are left bound the memory for them.
    fn entries<T>(
        &self,
        reader: &mut Reader<'_>,
        mut entry: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        if self.entries.saturating_mul(self.least) > reader.remaining() {
            let expected = format!("at most {}", reader.remaining() / self.least.max(1));
            return Err(DecodeError::field(self.field, expected, self.entries));
        }
        let mut entries = Vec::with_capacity(self.entries);
        for _ in 0..self.entries {
            entries.push(entry(reader)?);
        }
        Ok(entries)
    }
}

fn sources_of(count: &Count, reader: &mut Reader<'_>) -> Result<BTreeSet<TensorId>, DecodeError> {
    let sources = count.entries(reader, |reader| Ok(TensorId(Digest(reader.array()?))))?;
    if sources
        .iter()
        .zip(sources.iter().skip(1))
        .any(|(source, next)| source >= next)
    {
        return Err(DecodeError::field("sources", "ascending", "others"));
    }
    Ok(sources.into_iter().collect())
}

fn object(reader: &mut Reader<'_>) -> Result<ObjectRef, DecodeError> {
    Ok(ObjectRef {
        id: ObjectId(Digest(reader.array()?)),
        len: reader.u64()?,
        crc: reader.u32()?,
    })
}

fn tensor(reader: &mut Reader<'_>) -> Result<LayoutTensor, DecodeError> {
    let name_len = reader.u32()? as usize;
    let code = reader.u16()?;
    let dtype =
        Dtype::from_code(code).ok_or_else(|| DecodeError::field("dtype code", "1 to 22", code))?;
    let rank = usize::from(reader.u16()?);
    if rank > MAX_LAYOUT_RANK {
        let expected = format!("at most {MAX_LAYOUT_RANK}");
        return Err(DecodeError::field("rank", expected, rank));
    }
    let object = reader.u32()?;
    let alias = reader.u32()?;
    let offset = reader.u64()?;
    let mut numbers = || {
        (0..rank)
            .map(|_| reader.u64())
            .collect::<Result<Vec<_>, _>>()
    };
    let (shape, strides) = (numbers()?, numbers()?);
    let place = match object {
        NONE if offset == 0 => None,
        NONE => return Err(DecodeError::field("offset without an object", 0, offset)),
        object => Some(LayoutPlace { object, offset }),
    };
    Ok(LayoutTensor {
        name: reader.text(name_len, "tensor name")?.to_owned(),
        dtype,
        shape,
        strides,
        place,
        alias: (alias != NONE).then_some(alias),
    })
}

fn attributes_of(
    count: &Count,
    reader: &mut Reader<'_>,
) -> Result<BTreeMap<String, Vec<u8>>, DecodeError> {
    let pairs = count.entries(reader, |reader| {
        let (key, value) = (reader.u32()? as usize, reader.u32()? as usize);
        let key = reader.text(key, "attribute key")?.to_owned();
        Ok((key, reader.bytes(value)?.to_vec()))
    })?;
    let following = pairs.iter().skip(1);
    if let Some((_, (key, _))) = pairs
        .iter()
        .zip(following)
        .find(|(pair, next)| pair.0 >= next.0)
    {
        return Err(DecodeError::field(
            "attribute keys",
            "ascending",
            key.escape_debug(),
        ));
    }
    Ok(pairs.into_iter().collect())
}
