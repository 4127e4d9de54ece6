//! Reading payloads field by field.

use super::super::frame::ProtocolError;
use super::MAX_TEXT_BYTES;

/// The first bytes of a text, at most [`MAX_TEXT_BYTES`], without half a character.
pub(super) fn cut(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text.as_bytes().get(..end).unwrap_or_default()
}

/// What is left to read of a payload.
pub(super) struct Payload<'a> {
    kind: u8,
    rest: &'a [u8],
    found: usize,
}

impl<'a> Payload<'a> {
    pub(super) fn new(kind: u8, payload: &'a [u8]) -> Self {
        Self {
            kind,
            rest: payload,
            found: payload.len(),
        }
    }

    pub(super) fn length(&self, expected: &'static str) -> ProtocolError {
        ProtocolError::Length {
            kind: self.kind,
            expected,
            found: self.found,
        }
    }

    pub(super) fn next<const N: usize>(
        &mut self,
        expected: &'static str,
    ) -> Result<[u8; N], ProtocolError> {
        let split = self.rest.split_first_chunk();
        let (field, rest) = split.ok_or_else(|| self.length(expected))?;
        self.rest = rest;
        Ok(*field)
    }

    /// The last field.
    pub(super) fn last<const N: usize>(
        &self,
        expected: &'static str,
    ) -> Result<[u8; N], ProtocolError> {
        self.rest.try_into().map_err(|_| self.length(expected))
    }

    /// A text, which comes last.
    pub(super) fn text(&self, expected: &'static str) -> Result<String, ProtocolError> {
        if self.rest.len() > MAX_TEXT_BYTES {
            return Err(self.length(expected));
        }
        let text = str::from_utf8(self.rest).map_err(|_| ProtocolError::Text(self.kind))?;
        Ok(text.to_owned())
    }
}
