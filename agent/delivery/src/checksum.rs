//! Digests and checksums that S3 keeps of whole objects.

use std::convert::Infallible;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use reqwest::header::HeaderMap;
use tetris_loader::StoredFile;

/// A checksum of all bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    kind: Kind,
    value: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Crc64Nvme,
    Crc32C,
    Crc32,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Crc64Nvme, Self::Crc32C, Self::Crc32];

    fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "CRC64NVME",
            Self::Crc32C => "CRC32C",
            Self::Crc32 => "CRC32",
        }
    }

    fn header(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Crc32C => "x-amz-checksum-crc32c",
            Self::Crc32 => "x-amz-checksum-crc32",
        }
    }

    fn algorithm(self) -> CrcAlgorithm {
        match self {
            Self::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            Self::Crc32C => CrcAlgorithm::Crc32Iscsi,
            Self::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        }
    }

    /// The value of big-endian bytes. `None` where their number is another kind's.
    fn value(self, bytes: &[u8]) -> Option<u64> {
        match self {
            Self::Crc64Nvme => bytes.try_into().ok().map(u64::from_be_bytes),
            Self::Crc32C | Self::Crc32 => {
                bytes.try_into().ok().map(u32::from_be_bytes).map(u64::from)
            }
        }
    }
}

impl Checksum {
    /// The checksum of the same kind over the bytes of `file`.
    pub(crate) fn over(self, file: &StoredFile<'_>) -> Self {
        let mut digest = crc_fast::Digest::new(self.kind.algorithm());
        let Ok(()) = file.read_through(|piece| {
            digest.update(piece);
            Ok::<_, Infallible>(())
        });
        Self {
            value: digest.finalize(),
            ..self
        }
    }
}

/// As S3's commands show it: the bytes in base64.
#[expect(clippy::big_endian_bytes, reason = "the order of S3")]
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.kind {
            Kind::Crc64Nvme => BASE64_STANDARD.encode(self.value.to_be_bytes()),
            Kind::Crc32C | Kind::Crc32 => BASE64_STANDARD.encode((self.value as u32).to_be_bytes()),
        };
        write!(f, "{} {value}", self.kind.name())
    }
}

/// Digest and checksum that a source promises for one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) sha256: Option<[u8; 32]>,
    pub(crate) checksum: Option<Checksum>,
}

impl Promise {
    /// The promise in the headers of an object. Those of parts of an object are none: where the parts end is not known.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if text("x-amz-checksum-type") == Some("COMPOSITE") {
            return Self::default();
        }
        // Older servers append a hyphen and the number of parts to what covers parts, which makes it no base64.
        let bytes = |name| BASE64_STANDARD.decode(text(name)?).ok();
        let checksum = |kind: Kind| {
            let value = kind.value(&bytes(kind.header())?)?;
            Some(Checksum { kind, value })
        };
        Self {
            sha256: bytes("x-amz-checksum-sha256").and_then(|bytes| bytes.try_into().ok()),
            checksum: Kind::ALL.into_iter().find_map(checksum),
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn promise(headers: &[(&'static str, &'static str)]) -> Promise {
        let headers = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (name.parse().unwrap(), value)
        });
        Promise::of_headers(&headers.collect())
    }

    /// The checksums of "123456789" by the catalogue of the algorithms.
    #[test]
    fn kinds_are_those_of_their_names() {
        for (kind, expected) in [
            (Kind::Crc64Nvme, 0xae8b_1486_0a79_9888),
            (Kind::Crc32C, 0xe306_9283),
            (Kind::Crc32, 0xcbf4_3926),
        ] {
            let value = crc_fast::checksum(kind.algorithm(), b"123456789");
            assert_eq!(value, expected, "{kind:?}");
        }
    }

    #[test]
    fn checksums_of_whole_objects_are_taken_and_the_strongest_first() {
        let crc32 = ("x-amz-checksum-crc32", "y/Q5Jg==");
        let crc64 = ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=");
        let checksum = |headers: &[_]| {
            promise(headers)
                .checksum
                .map(|checksum| checksum.to_string())
        };
        assert_eq!(checksum(&[crc32]).as_deref(), Some("CRC32 y/Q5Jg=="));
        let whole = ("x-amz-checksum-type", "FULL_OBJECT");
        assert_eq!(
            checksum(&[crc32, whole, crc64]).as_deref(),
            Some("CRC64NVME rosUhgp5mIg=")
        );
        let sha256 = "x-amz-checksum-sha256";
        let digest = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        assert_eq!(promise(&[(sha256, digest)]).sha256, Some([0; 32]));
    }

    #[test]
    fn checksums_of_parts_and_other_values_promise_nothing() {
        let parts = ("x-amz-checksum-type", "COMPOSITE");
        for headers in [
            &[("x-amz-checksum-crc32", "y/Q5Jg=="), parts][..],
            &[("x-amz-checksum-crc32c", "y/Q5Jg==-3")],
            &[("x-amz-checksum-crc64nvme", "y/Q5Jg==")],
            &[("x-amz-checksum-sha256", "rosUhgp5mIg=")],
            &[("x-amz-checksum-sha256", "\u{ff}")],
            &[],
        ] {
            assert_eq!(promise(headers), Promise::default(), "{headers:?}");
        }
    }
}
