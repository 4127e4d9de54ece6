//! Little-endian reading and writing that cannot panic on hostile bytes.

use crate::error::DecodeError;
use crate::version::FORMAT_VERSION;

/// Reads fields from the front of a byte slice.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    structure: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; errors call them `structure`.
    pub(crate) fn new(bytes: &'a [u8], structure: &'static str) -> Self {
        Self {
            rest: bytes,
            structure,
        }
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short {
            field: self.structure,
            expected: len as u64,
            found: self.rest.len() as u64,
        })?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    /// The next `len` bytes as UTF-8.
    pub(crate) fn text(&mut self, len: usize, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(len)?)
            .map_err(|error| DecodeError::field(field, "UTF-8", error))
    }

    /// Skips `len` bytes that must be zero, so that they can get a meaning later.
    pub(crate) fn reserved(&mut self, len: usize) -> Result<(), DecodeError> {
        if self.bytes(len)?.iter().all(|&byte| byte == 0) {
            Ok(())
        } else {
            Err(DecodeError::field("reserved bytes", "zero", "other values"))
        }
    }

    /// The magic and version that every file of the store begins with.
    pub(crate) fn preamble(&mut self, magic: &[u8; 8]) -> Result<(), DecodeError> {
        let found = self.array::<8>()?;
        if &found != magic {
            return Err(DecodeError::Magic {
                expected: magic.escape_ascii().to_string(),
                found: found.escape_ascii().to_string(),
            });
        }
        match self.u32()? {
            FORMAT_VERSION => Ok(()),
            found => Err(DecodeError::Version { found }),
        }
    }

    /// Number of bytes that are left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }
}

/// Appends fields to a byte vector.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn with_preamble(magic: &[u8; 8], capacity: usize) -> Self {
        let mut writer = Self {
            bytes: Vec::with_capacity(capacity),
        };
        writer.put(magic);
        writer.u32(FORMAT_VERSION);
        writer
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn zeros(&mut self, len: usize) {
        self.bytes.resize(self.bytes.len() + len, 0);
    }

    /// Appends the CRC-32 of everything written so far.
    pub(crate) fn crc(&mut self) {
        let crc = crc32fast::hash(&self.bytes);
        self.u32(crc);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Checks that the last four of `bytes` are the CRC-32 of those before and returns those before.
pub(crate) fn checked_by_crc<'a>(
    bytes: &'a [u8],
    field: &'static str,
) -> Result<&'a [u8], DecodeError> {
    let short = DecodeError::Short {
        field,
        expected: 4,
        found: bytes.len() as u64,
    };
    let (body, stated) = bytes.split_last_chunk::<4>().ok_or(short)?;
    let stated = u32::from_le_bytes(*stated);
    let found = crc32fast::hash(body);
    if stated == found {
        Ok(body)
    } else {
        Err(DecodeError::Checksum {
            field,
            expected: format!("{stated:08x}"),
            found: format!("{found:08x}"),
        })
    }
}
