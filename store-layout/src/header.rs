//! The store header (LAYOUT.md 3.1).

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::codec::{Reader, Writer, checked_by_crc};
use crate::error::DecodeError;

const MAGIC: &[u8; 8] = b"TETRSTOR";
const HEADER_LEN: usize = 64;

/// Distinguishes stores; random, fixed when a store is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Contents of a store's `store` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreHeader {
    pub(crate) id: StoreId,
    /// Seconds since the epoch: a time that [`SystemTime`] can express.
    pub(crate) created_s: u64,
}

impl StoreHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_preamble(MAGIC, HEADER_LEN);
        writer.zeros(4);
        writer.put(&self.id.0);
        writer.u64(self.created_s);
        writer.zeros(20);
        writer.crc();
        debug_assert_eq!(writer.len(), HEADER_LEN);
        writer.finish()
    }

    /// The header's bytes, and one more if there are more, which no decoder accepts.
    pub(crate) fn bytes_of(file: &File) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEADER_LEN + 1];
        let mut len = 0;
        while let Some(rest) = bytes.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Magic and version come first, so that a later version is recognized as such and not as damage.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "store header");
        reader.preamble(MAGIC)?;
        if bytes.len() != HEADER_LEN {
            return Err(DecodeError::field(
                "store header length",
                HEADER_LEN,
                bytes.len(),
            ));
        }
        checked_by_crc(bytes, "store header")?;
        reader.reserved(4)?;
        let id = StoreId(reader.array()?);
        let created_s = reader.u64()?;
        reader.reserved(20)?;
        let header = Self { id, created_s };
        if header.created().is_none() {
            let expected = "seconds since 1970";
            return Err(DecodeError::field("time of creation", expected, created_s));
        }
        Ok(header)
    }

    /// Time of creation; `None` if it is beyond what a time can express.
    pub(crate) fn created(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.created_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: StoreHeader = StoreHeader {
        id: StoreId([7; 16]),
        created_s: 1_700_000_000,
    };

    #[test]
    fn golden_bytes_of_version_1() {
        let bytes = HEADER.encode();
        let mut golden = b"TETRSTOR\x01\0\0\0\0\0\0\0".to_vec();
        golden.extend([7; 16]);
        golden.extend(b"\x00\xf1\x53\x65\0\0\0\0");
        golden.extend([0; 20]);
        golden.extend(b"\x12\x91\xca\x89");
        assert_eq!(bytes, golden);
        assert_eq!(StoreHeader::decode(&bytes), Ok(HEADER));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = HEADER.encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(StoreHeader::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_is_refused() {
        let created_s = u64::MAX;
        let bytes = StoreHeader {
            created_s,
            ..HEADER
        }
        .encode();
        let refused = StoreHeader::decode(&bytes).unwrap_err().to_string();
        assert!(refused.contains("time of creation"), "{refused}");
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = HEADER.encode();
        bytes[8] = 2;
        assert_eq!(
            StoreHeader::decode(&bytes),
            Err(DecodeError::Version { found: 2 })
        );
    }
}
