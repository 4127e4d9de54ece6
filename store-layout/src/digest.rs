//! 32-byte identifiers and their hexadecimal form.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A BLAKE3-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// Text is not 64 lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected 64 lowercase hexadecimal digits, found `{}`", .0.escape_debug())]
pub struct ParseDigestError(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The first eight bytes as an integer: uniformly distributed, so a threshold on it is a coin
    /// with a chosen bias.
    pub fn prefix_u64(&self) -> u64 {
        self.0
            .first_chunk::<8>()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

impl Digest {
    /// Appends the 64 hexadecimal digits to `text`. Every mapping begins with an object's name, and
    /// formatting byte by byte would take longer than a system call.
    pub(crate) fn push_hex(&self, text: &mut String) {
        const DIGITS: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        ];
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('0');
        for byte in self.0 {
            text.push(digit(byte >> 4));
            text.push(digit(byte & 0xf));
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(64);
        self.push_hex(&mut text);
        f.pad(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Marks what is no lowercase hexadecimal digit in [`NIBBLES`].
const NO_NIBBLE: u8 = 0x80;
/// Value of each byte as a hexadecimal digit. Digits of digests are random: the processor would
/// mispredict branches on them, and a pass reads the names of 100,000 objects.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates this, and refuses what is out of bounds"
)]
const NIBBLES: [u8; 256] = {
    let mut table = [NO_NIBBLE; 256];
    let digits = b"0123456789abcdef";
    let mut value = 0;
    while value < 16 {
        table[digits[value] as usize] = value as u8;
        value += 1;
    }
    table
};

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDigestError(text.chars().take(80).collect());
        let mut digest = [0u8; 32];
        let mut bad = 0;
        if text.len() != 64 {
            return Err(error());
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let nibble = |at: usize| {
                let digit = pair.get(at).copied().unwrap_or(0);
                NIBBLES
                    .get(usize::from(digit))
                    .copied()
                    .unwrap_or(NO_NIBBLE)
            };
            let (high, low) = (nibble(0), nibble(1));
            bad |= high | low;
            *byte = (high << 4) | (low & 0xf);
        }
        if bad & NO_NIBBLE == 0 {
            Ok(Self(digest))
        } else {
            Err(error())
        }
    }
}

macro_rules! digest_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Digest);

        impl $name {
            /// The identifier of `bytes`.
            pub fn of(bytes: &[u8]) -> Self {
                Self(Digest::of(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseDigestError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

digest_newtype! {
    /// Names an object: BLAKE3-256 of its bytes.
    ObjectId
}
digest_newtype! {
    /// Names a tensor's content, whether it is its own object or lies in a pack.
    TensorId
}
digest_newtype! {
    /// Names a manifest: BLAKE3-256 of its encoding.
    ManifestId
}
digest_newtype! {
    /// Names an identity record: BLAKE3-256 of its kind and key.
    IdentityId
}
digest_newtype! {
    /// Names a derived record: BLAKE3-256 of source, transform and version.
    DerivedId
}

impl From<TensorId> for ObjectId {
    /// The object that a tensor is when it is published alone: same bytes, same digest.
    fn from(id: TensorId) -> Self {
        Self(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        let digest = Digest::of(b"tetris");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    }

    #[test]
    fn anything_but_64_lowercase_digits_is_refused() {
        for text in ["", "00", &"A".repeat(64), &"g".repeat(64), &"0".repeat(65)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
