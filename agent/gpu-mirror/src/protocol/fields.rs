//! Fields of payloads.

use super::frame::{FRAME_HEADER_BYTES, ProtocolError};
use super::types::MAX_TEXT_BYTES;

/// The unread rest of a payload.
pub(super) struct Reader<'a> {
    kind: u8,
    rest: &'a [u8],
    found: usize,
    expected: &'static str,
}

impl<'a> Reader<'a> {
    /// Creates a reader of a message of `kind`; `expected` describes its length in bytes, for
    /// errors.
    pub fn new(kind: u8, payload: &'a [u8], expected: &'static str) -> Self {
        Self {
            kind,
            rest: payload,
            found: payload.len(),
            expected,
        }
    }

    fn length(&self) -> ProtocolError {
        ProtocolError::Length {
            kind: self.kind,
            expected: self.expected,
            found: self.found,
        }
    }

    pub fn value(&self, expected: &'static str, found: u64) -> ProtocolError {
        let kind = self.kind;
        ProtocolError::Value {
            kind,
            expected,
            found,
        }
    }

    pub fn bytes<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let split = self.rest.split_first_chunk();
        let (field, rest) = split.ok_or_else(|| self.length())?;
        self.rest = rest;
        Ok(*field)
    }

    pub fn u8(&mut self) -> Result<u8, ProtocolError> {
        self.bytes().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, ProtocolError> {
        self.bytes().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, ProtocolError> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, ProtocolError> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Reads a text of `len` bytes.
    pub fn text(&mut self, len: usize) -> Result<String, ProtocolError> {
        let split = self.rest.split_at_checked(len);
        let (text, rest) = split.ok_or_else(|| self.length())?;
        self.rest = rest;
        let text = str::from_utf8(text).map_err(|_| ProtocolError::Text(self.kind))?;
        Ok(text.to_owned())
    }

    /// Reads a text that fills the rest of the payload.
    pub fn last_text(&mut self) -> Result<String, ProtocolError> {
        let len = self.rest.len();
        if len > MAX_TEXT_BYTES {
            return Err(self.length());
        }
        self.text(len)
    }

    /// Reads entries that fill the rest of the payload, 1 to `most`.
    pub fn list<T>(
        &mut self,
        most: usize,
        entry: impl Fn(&mut Self) -> Result<T, ProtocolError>,
    ) -> Result<Vec<T>, ProtocolError> {
        let mut entries = Vec::new();
        while !self.rest.is_empty() {
            if entries.len() == most {
                return Err(self.length());
            }
            entries.push(entry(self)?);
        }
        if entries.is_empty() {
            return Err(self.length());
        }
        Ok(entries)
    }

    /// Returns the value if no bytes are left.
    pub fn end<T>(&self, value: T) -> Result<T, ProtocolError> {
        if self.rest.is_empty() {
            Ok(value)
        } else {
            Err(self.length())
        }
    }
}

/// A frame under construction.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    pub fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends the first bytes of a text, at most `most`, cut at a character boundary.
    pub fn text(self, text: &str, most: usize) -> Self {
        let end = text.floor_char_boundary(most);
        self.bytes(text.as_bytes().get(..end).unwrap_or_default())
    }

    pub fn list<T>(self, entries: &[T], entry: impl Fn(Self, &T) -> Self) -> Self {
        entries.iter().fold(self, entry)
    }

    /// Completes the frame.
    pub fn end(mut self) -> Vec<u8> {
        let len = (self.0.len() - FRAME_HEADER_BYTES) as u32;
        if let Some(field) = self.0.first_chunk_mut() {
            *field = len.to_le_bytes();
        }
        self.0
    }
}
