//! Index of a safetensors file: its tensors and their positions.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use safetensors::tensor::Metadata;

use crate::compute::Element;
use crate::error::{Error, Result};

/// Maximum length of a header in bytes: the limit of the format's own library.
const HEADER_LIMIT: u64 = 100_000_000;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the file.
    pub name: String,
    /// Storage format of its numbers.
    pub element: Element,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Offset of the first byte in the file.
    pub begin: u64,
    /// Offset after the last byte in the file.
    pub end: u64,
}

impl Entry {
    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.begin
    }

    /// Returns true if the tensor has no bytes.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }
}

/// Reads the header of a file and lists its tensors in file order.
///
/// # Errors
///
/// [`Error::Io`] if reading fails, [`Error::Model`] if the header is invalid.
pub fn read(file: &File, path: &Path) -> Result<Vec<Entry>> {
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0)
        .map_err(Error::io("read", path))?;
    let header_length = u64::from_le_bytes(length);
    let file_length = file.metadata().map_err(Error::io("examine", path))?.len();
    if header_length > HEADER_LIMIT || header_length + 8 > file_length {
        return Err(Error::Model {
            path: path.to_path_buf(),
            reason: format!("the header claims {header_length} bytes in a file of {file_length}"),
        });
    }
    let mut header = vec![0; header_length as usize + 8];
    file.read_exact_at(&mut header, 0)
        .map_err(Error::io("read", path))?;
    parse(&header, file_length, path)
}

/// Parses the tensors from the start of a file, which contains the whole header.
fn parse(header: &[u8], file_length: u64, path: &Path) -> Result<Vec<Entry>> {
    let wrong = |reason: String| Error::Model {
        path: path.to_path_buf(),
        reason,
    };
    // The library checks a header against the whole file, which is not in memory here. So it checks
    // only the header, and the code below checks the last offset.
    let metadata: Metadata =
        serde_json::from_slice(&header[8..]).map_err(|error| wrong(error.to_string()))?;
    let data_begin = header.len() as u64;
    let mut entries = Vec::new();
    for name in metadata.offset_keys() {
        let info = metadata
            .info(&name)
            .ok_or_else(|| wrong(format!("tensor `{name}` has no entry")))?;
        let (begin, end) = info.data_offsets;
        let entry = Entry {
            element: Element::from_name(&info.dtype.to_string()),
            shape: info.shape.iter().map(|&extent| extent as u64).collect(),
            begin: data_begin + begin as u64,
            end: data_begin + end as u64,
            name,
        };
        if entry.end > file_length || entry.begin > entry.end {
            return Err(wrong(format!(
                "tensor `{}` ends at {} of {file_length} bytes",
                entry.name, entry.end
            )));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Number of tensors of one file, and their length in bytes.
pub fn totals(path: &Path) -> Result<(usize, u64)> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let entries = read(&file, path)?;
    Ok((entries.len(), entries.iter().map(Entry::len).sum()))
}
