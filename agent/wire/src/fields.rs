//! Fields of payloads.

use crate::{FRAME_HEADER_BYTES, MAX_TEXT_BYTES, ProtocolError};

/// The unread rest of a payload. Integers are little-endian.
#[derive(Debug)]
pub struct Reader<'a> {
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

    /// The error of a payload that is too long or too short.
    fn length(&self) -> ProtocolError {
        ProtocolError::Length {
            kind: self.kind,
            expected: self.expected,
            found: self.found,
        }
    }

    /// The error of a field that has the invalid value `found`.
    pub fn value(&self, expected: &'static str, found: u64) -> ProtocolError {
        let kind = self.kind;
        ProtocolError::Value {
            kind,
            expected,
            found,
        }
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if the payload is too short.
    pub fn bytes<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let split = self.rest.split_first_chunk();
        let (field, rest) = split.ok_or_else(|| self.length())?;
        self.rest = rest;
        Ok(*field)
    }

    /// Reads a number of a byte.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if the payload is too short.
    pub fn u8(&mut self) -> Result<u8, ProtocolError> {
        self.bytes().map(u8::from_le_bytes)
    }

    /// Reads a number of two bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if the payload is too short.
    pub fn u16(&mut self) -> Result<u16, ProtocolError> {
        self.bytes().map(u16::from_le_bytes)
    }

    /// Reads a number of four bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if the payload is too short.
    pub fn u32(&mut self) -> Result<u32, ProtocolError> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Reads a number of eight bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if the payload is too short.
    pub fn u64(&mut self) -> Result<u64, ProtocolError> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Reads a text of `len` bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if the payload is too short, [`ProtocolError::Text`] if it is not UTF-8.
    pub fn text(&mut self, len: usize) -> Result<String, ProtocolError> {
        let split = self.rest.split_at_checked(len);
        let (text, rest) = split.ok_or_else(|| self.length())?;
        self.rest = rest;
        let text = str::from_utf8(text).map_err(|_| ProtocolError::Text(self.kind))?;
        Ok(text.to_owned())
    }

    /// Reads a text that fills the rest of the payload, at most [`MAX_TEXT_BYTES`].
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if it is too long, [`ProtocolError::Text`] if it is not UTF-8.
    pub fn last_text(&mut self) -> Result<String, ProtocolError> {
        self.last_text_within(MAX_TEXT_BYTES)
    }

    /// Reads a text of at most `most` bytes that fills the rest of the payload.
    ///
    /// # Errors
    ///
    /// As [`Reader::last_text`].
    pub fn last_text_within(&mut self, most: usize) -> Result<String, ProtocolError> {
        let len = self.rest.len();
        if len > most {
            return Err(self.length());
        }
        self.text(len)
    }

    /// Reads entries that fill the rest of the payload, 1 to `most`.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if there are none or too many, and the errors of `entry`.
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
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Length`] if bytes are left.
    pub fn end<T>(&self, value: T) -> Result<T, ProtocolError> {
        if self.rest.is_empty() {
            Ok(value)
        } else {
            Err(self.length())
        }
    }
}

/// A frame under construction. Integers are little-endian.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// The frame of a message of `kind`.
    pub fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    /// Appends bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a number of a byte.
    #[must_use]
    pub fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    /// Appends a number of two bytes.
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a number of four bytes.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends a number of eight bytes.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends the first bytes of a text, at most `most`, cut at a character boundary.
    #[must_use]
    pub fn text(self, text: &str, most: usize) -> Self {
        let end = text.floor_char_boundary(most);
        self.bytes(text.as_bytes().get(..end).unwrap_or_default())
    }

    /// Appends entries.
    #[must_use]
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
