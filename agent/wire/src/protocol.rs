//! Preambles: the first bytes of either side.

use crate::ProtocolError;

/// Length of the magic in bytes.
const MAGIC_BYTES: usize = 8;
/// Length of the preamble in bytes: magic and version.
pub const PREAMBLE_BYTES: usize = 12;

/// A protocol, as its preamble names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// First bytes in both directions, in every version.
    pub magic: [u8; MAGIC_BYTES],
    /// Version of this side.
    pub version: u32,
}

impl Protocol {
    /// Encodes the preamble, the first bytes of each side.
    pub fn preamble(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        let (magic, version) = bytes.split_at_mut(MAGIC_BYTES);
        magic.copy_from_slice(&self.magic);
        version.copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Checks the other side's preamble.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Magic`] and [`ProtocolError::Version`]: the bytes after it have no defined
    /// meaning then.
    pub fn check_preamble(&self, bytes: &[u8; PREAMBLE_BYTES]) -> Result<(), ProtocolError> {
        let other = || ProtocolError::Magic {
            found: bytes.escape_ascii().to_string(),
            expected: self.magic.escape_ascii().to_string(),
        };
        let version = bytes.strip_prefix(&self.magic).ok_or_else(other)?;
        let version = version.first_chunk().ok_or_else(other)?;
        let found = u32::from_le_bytes(*version);
        if found != self.version {
            let expected = self.version;
            return Err(ProtocolError::Version { found, expected });
        }
        Ok(())
    }
}
