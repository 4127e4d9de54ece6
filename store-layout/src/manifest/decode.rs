//! Reading a manifest from bytes that may be hostile.

use super::{
    HEADER_LEN, MAGIC, MAX_METADATA, MAX_OBJECTS, MAX_TENSORS, METADATA_LEN, Manifest,
    ManifestKind, ManifestObject, ManifestTensor, NO_OBJECT, OBJECT_LEN, ObjectKind, TENSOR_LEN,
    TensorPlace,
};
use crate::codec::{Reader, checked_by_crc};
use crate::digest::{Digest, ObjectId, TensorId};
use crate::dtype::Dtype;
use crate::error::DecodeError;
use crate::store::ObjectRef;

/// The header's fields, checked against caps and the length that is really there.
struct Header {
    kind: ManifestKind,
    objects: usize,
    tensors: usize,
    metadata: usize,
    source_size: u64,
    data_start: u64,
    dims: usize,
    header_digest: Digest,
}

/// A tensor entry whose name and dimensions are still to be read.
struct RawTensor {
    id: TensorId,
    source_offset: u64,
    len: u64,
    place: Option<TensorPlace>,
    name_len: usize,
    dtype: Dtype,
    rank: usize,
}

impl Manifest {
    /// Decodes and checks a manifest.
    ///
    /// Accepts exactly the bytes that [`Manifest::encode`] produces for some valid manifest.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (head, tables) = bytes
            .split_at_checked(HEADER_LEN)
            .ok_or(DecodeError::Short {
                field: "manifest header",
                expected: HEADER_LEN as u64,
                found: bytes.len() as u64,
            })?;
        let header = Header::decode(head, bytes.len() as u64)?;
        let mut reader = Reader::new(tables, "manifest");
        let objects = read_vec(header.objects, || read_object(&mut reader))?;
        let raw = read_vec(header.tensors, || RawTensor::decode(&mut reader))?;
        let pairs = read_vec(header.metadata, || {
            Ok((reader.u32()? as usize, reader.u32()? as usize))
        })?;
        let ranks: usize = raw.iter().map(|tensor| tensor.rank).sum();
        if ranks != header.dims {
            return Err(DecodeError::field("dimension count", ranks, header.dims));
        }
        let mut dims = Reader::new(reader.bytes(header.dims * size_of::<u64>())?, "dimensions");
        let mut strings = reader;
        let tensors = raw
            .into_iter()
            .map(|tensor| tensor.complete(&mut dims, &mut strings))
            .collect::<Result<_, _>>()?;
        let metadata = read_strings(&pairs, &mut strings)?;
        if strings.remaining() != 0 {
            let rest = format!("{} bytes more", strings.remaining());
            return Err(DecodeError::field("string bytes", "sum of lengths", rest));
        }
        let manifest = Self {
            kind: header.kind,
            source_size: header.source_size,
            data_start: header.data_start,
            header_digest: header.header_digest,
            metadata,
            objects,
            tensors,
        };
        manifest.check()?;
        Ok(manifest)
    }
}

impl Header {
    fn decode(head: &[u8], found_len: u64) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(head, "manifest header");
        reader.preamble(MAGIC)?;
        checked_by_crc(head, "manifest header")?;
        let kind = match reader.u32()? {
            1 => ManifestKind::Safetensors,
            2 => ManifestKind::File,
            other => return Err(DecodeError::field("manifest kind", "1 or 2", other)),
        };
        let total = reader.u64()?;
        if total != found_len {
            return Err(DecodeError::field("manifest length", total, found_len));
        }
        let objects = capped(reader.u32()?, MAX_OBJECTS, "object count")?;
        let tensors = capped(reader.u32()?, MAX_TENSORS, "tensor count")?;
        let metadata = capped(reader.u32()?, MAX_METADATA, "metadata count")?;
        reader.reserved(4)?;
        let source_size = reader.u64()?;
        let data_start = reader.u64()?;
        let dims = reader.u64()?;
        let strings = reader.u64()?;
        let header_digest = Digest(reader.array()?);
        reader.reserved(20)?;
        let fixed =
            HEADER_LEN + objects * OBJECT_LEN + tensors * TENSOR_LEN + metadata * METADATA_LEN;
        let sections = dims
            .checked_mul(size_of::<u64>() as u64)
            .and_then(|dims| dims.checked_add(strings))
            .and_then(|sum| sum.checked_add(fixed as u64));
        if sections != Some(total) {
            let found = sections.map_or("an overflow".to_owned(), |sum| sum.to_string());
            return Err(DecodeError::field("sum of the sections", total, found));
        }
        Ok(Self {
            kind,
            objects,
            tensors,
            metadata,
            source_size,
            data_start,
            dims: dims as usize,
            header_digest,
        })
    }
}

impl RawTensor {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let id = TensorId(Digest(reader.array()?));
        let source_offset = reader.u64()?;
        let len = reader.u64()?;
        let offset = reader.u64()?;
        let object = reader.u32()?;
        let name_len = reader.u32()? as usize;
        let code = reader.u16()?;
        let dtype = Dtype::from_code(code)
            .ok_or_else(|| DecodeError::field("dtype code", "1 to 22", code))?;
        let rank = usize::from(reader.u16()?);
        reader.reserved(4)?;
        let place = match object {
            NO_OBJECT if offset == 0 => None,
            NO_OBJECT => return Err(DecodeError::field("offset without an object", 0, offset)),
            object => Some(TensorPlace { object, offset }),
        };
        Ok(Self {
            id,
            source_offset,
            len,
            place,
            name_len,
            dtype,
            rank,
        })
    }

    fn complete(
        self,
        dims: &mut Reader<'_>,
        strings: &mut Reader<'_>,
    ) -> Result<ManifestTensor, DecodeError> {
        let shape = (0..self.rank)
            .map(|_| dims.u64())
            .collect::<Result<_, _>>()?;
        Ok(ManifestTensor {
            name: strings.text(self.name_len, "tensor name")?.to_owned(),
            dtype: self.dtype,
            shape,
            id: self.id,
            len: self.len,
            source_offset: self.source_offset,
            place: self.place,
        })
    }
}

fn read_object(reader: &mut Reader<'_>) -> Result<ManifestObject, DecodeError> {
    let id = ObjectId(Digest(reader.array()?));
    let len = reader.u64()?;
    let crc = reader.u32()?;
    let code = reader.u8()?;
    reader.reserved(3)?;
    let kind = ObjectKind::from_code(code)
        .ok_or_else(|| DecodeError::field("object kind", "1 to 3", code))?;
    Ok(ManifestObject {
        object: ObjectRef { id, crc, len },
        kind,
    })
}

fn read_strings(
    pairs: &[(usize, usize)],
    strings: &mut Reader<'_>,
) -> Result<Vec<(String, String)>, DecodeError> {
    pairs
        .iter()
        .map(|&(key, value)| {
            let key = strings.text(key, "metadata key")?.to_owned();
            let value = strings.text(value, "metadata value")?.to_owned();
            Ok((key, value))
        })
        .collect()
}

/// `count` has been checked against the length of the input, so the capacity is bounded by it.
fn read_vec<T>(
    count: usize,
    mut read: impl FnMut() -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(read()?);
    }
    Ok(items)
}

fn capped(count: u32, limit: usize, field: &'static str) -> Result<usize, DecodeError> {
    let count = count as usize;
    if count <= limit {
        Ok(count)
    } else {
        Err(DecodeError::field(field, format!("at most {limit}"), count))
    }
}
