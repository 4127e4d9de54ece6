//! The header of a safetensors file, read from bytes that anybody may have written.
//!
//! A file is eight bytes of length `N` (little-endian), `N` bytes of JSON, then the tensors' bytes. The JSON maps a tensor's name to
//! its dtype, its shape and its byte range, and `__metadata__` to a map of strings.
//!
//! # Guarantees
//! A [`Header`] that was handed out holds: names are unique, none is empty and none contains NUL; every tensor's length is what its
//! dtype and shape say; the ranges follow one another without a gap or an overlap, the first begins at zero and the last ends where
//! the file ends. So each range lies inside the file, and arithmetic on ranges cannot overflow.
//!
//! # Agreement with the reference
//! What the `safetensors` crate accepts is accepted with the same meaning, except duplicate names (the crate keeps the last one),
//! empty names, names with NUL, and what exceeds the limits below. Whatever is accepted here the crate accepts too.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::panic,
        clippy::string_slice
    )
)]

mod check;
mod entries;
mod problem;
mod skipped;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) use problem::quoted;
pub use problem::{HeaderError, HeaderProblem};
pub use safetensors::Dtype;

/// Bytes of the length field in front of the JSON.
pub const LENGTH_FIELD_LEN: u64 = 8;

/// The largest JSON in bytes, the cap of the reference implementation.
pub const MAX_HEADER_LEN: u64 = 100_000_000;

/// First bytes of a pointer of git-lfs, as its specification has them.
const LFS_POINTER: &[u8; 42] = b"version https://git-lfs.github.com/spec/v1";

/// The most tensors of one file.
///
/// The shortest entry that a writer emits, `"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},`, has 51 bytes, so a header below
/// [`MAX_HEADER_LEN`] describes at most 1.97 million. The limit only stops the denser array form, which no writer emits, from
/// costing more: 2 million entries of 72 bytes with a name and a shape on the heap (32 bytes each) are some 270 MB.
pub const MAX_TENSORS: usize = 2_000_000;

/// The most dimensions of one tensor: the larger of what PyTorch and `NumPy` handle.
pub const MAX_RANK: usize = 64;

/// The longest tensor name in bytes. Names are paths of module names, some 200 bytes in the deepest models.
pub const MAX_NAME_LEN: usize = 4096;

/// The most entries of `__metadata__`.
///
/// The shortest entry has seven bytes and costs 48 bytes here, so without a limit [`MAX_HEADER_LEN`] would become 700 MB.
pub const MAX_METADATA_ENTRIES: usize = 1_000_000;

/// The header of a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The strings under `__metadata__`; empty if there are none.
    pub metadata: BTreeMap<String, String>,
    /// The tensors in file order: by begin, then by end, then by name, so that tensors without bytes have a stable place too.
    pub tensors: Vec<TensorInfo>,
    /// Offset of the tensors' bytes from the start of the file.
    pub data_start: u64,
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique within the file, not empty, without NUL.
    pub name: String,
    /// The type of one element.
    pub dtype: Dtype,
    /// Elements along each dimension; empty for a scalar.
    pub shape: Vec<u64>,
    /// First byte, counted from [`Header::data_start`].
    pub begin: u64,
    /// One past the last byte, counted from [`Header::data_start`].
    pub end: u64,
}

impl TensorInfo {
    /// Length in bytes.
    pub fn byte_len(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

impl Header {
    /// Reads and checks the header of `file`, whose length in bytes is `file_len`.
    ///
    /// Also returns the bytes the header was read from (length field and JSON, [`Header::data_start`] bytes) for a digest of them.
    /// Reads at given positions, so the file's cursor does not matter and stays where it is. `path` only serves the errors.
    ///
    /// # Errors
    /// [`HeaderError::Read`] if the file cannot be read, or is shorter than `file_len`; [`HeaderError::Invalid`] if what was read is
    /// no valid header.
    pub fn read(file: &File, file_len: u64, path: &Path) -> Result<(Self, Vec<u8>), HeaderError> {
        Self::read_within(file, file_len, path, MAX_TENSORS)
    }

    /// As [`Header::read`], of at most `max_tensors`: the next one ends the reading.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub fn read_within(
        file: &File,
        file_len: u64,
        path: &Path,
        max_tensors: usize,
    ) -> Result<(Self, Vec<u8>), HeaderError> {
        let invalid = |source| HeaderError::Invalid {
            path: path.to_owned(),
            source,
        };
        let failed = |source| HeaderError::Read {
            path: path.to_owned(),
            source,
        };
        if file_len < LENGTH_FIELD_LEN {
            return Err(invalid(HeaderProblem::TooShort {
                expected: LENGTH_FIELD_LEN,
                found: file_len,
            }));
        }
        let mut length_field = [0; LENGTH_FIELD_LEN as usize];
        file.read_exact_at(&mut length_field, 0).map_err(failed)?;
        if LFS_POINTER.starts_with(&length_field) {
            let mut front = [0; LFS_POINTER.len()];
            let whole = file.read_exact_at(&mut front, 0);
            if whole.is_ok() && front == *LFS_POINTER {
                return Err(invalid(HeaderProblem::LfsPointer { file: file_len }));
            }
        }
        let data_start = data_start(length_field, file_len).map_err(invalid)?;
        let bytes = read_front(file, data_start).map_err(failed)?;
        let header = Self::parse_within(&bytes, file_len, max_tensors).map_err(invalid)?;
        Ok((header, bytes))
    }

    /// Checks the header at the front of `bytes`, which are the first bytes of a file of `file_len` bytes.
    ///
    /// `bytes` must hold the header in full and may hold more.
    ///
    /// # Errors
    /// Describes what is wrong, first with the lengths, then with the JSON, then with names, then with ranges in file order.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Self, HeaderProblem> {
        Self::parse_within(bytes, file_len, MAX_TENSORS)
    }

    fn parse_within(
        bytes: &[u8],
        file_len: u64,
        max_tensors: usize,
    ) -> Result<Self, HeaderProblem> {
        let short = |expected| HeaderProblem::TooShort {
            expected,
            found: bytes.len() as u64,
        };
        let (length_field, rest) = bytes
            .split_first_chunk()
            .ok_or_else(|| short(LENGTH_FIELD_LEN))?;
        if bytes.starts_with(LFS_POINTER) {
            return Err(HeaderProblem::LfsPointer { file: file_len });
        }
        let data_start = data_start(*length_field, file_len)?;
        let json = usize::try_from(data_start.saturating_sub(LENGTH_FIELD_LEN))
            .ok()
            .and_then(|json_len| rest.get(..json_len))
            .ok_or_else(|| short(data_start))?;
        let text = str::from_utf8(json).map_err(|error| HeaderProblem::NotUtf8 {
            offset: LENGTH_FIELD_LEN.saturating_add(error.valid_up_to() as u64),
        })?;
        let (metadata, tensors) = entries::read(text, max_tensors.min(MAX_TENSORS))?;
        let tensors = check::in_file_order(tensors, file_len.saturating_sub(data_start))?;
        Ok(Self {
            metadata,
            tensors,
            data_start,
        })
    }
}

/// Offset of the data according to the length field; nothing is allocated before this has agreed.
fn data_start(length_field: [u8; 8], file_len: u64) -> Result<u64, HeaderProblem> {
    let json_len = u64::from_le_bytes(length_field);
    if json_len > MAX_HEADER_LEN {
        return Err(HeaderProblem::TooLarge {
            found: json_len,
            limit: MAX_HEADER_LEN,
        });
    }
    let data_start = LENGTH_FIELD_LEN.saturating_add(json_len);
    if data_start > file_len {
        return Err(HeaderProblem::LengthBeyondFile {
            header: json_len,
            file: file_len,
        });
    }
    Ok(data_start)
}

/// The first `len` bytes of `file`. A refused allocation becomes an error, not an abort: `len` came out of the file.
fn read_front(file: &File, len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(len, 0);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
