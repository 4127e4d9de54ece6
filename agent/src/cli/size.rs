//! Byte sizes as people write and read them.

use std::fmt;
use std::str::FromStr;

use tetris_conventions::size::{self, SizeError};

/// A number of bytes: parsed from `8GiB`, `512M`, `1.5g` or `4096`, shown as `8.0 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&tetris_agent::doctor::Bytes(self.0).to_string())
    }
}

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        size::parse(text).map(Self)
    }
}

/// The amount in words: `8.0 GiB in 1 object`.
pub(crate) fn in_objects(bytes: u64, objects: u64) -> String {
    format!("{} in {}", Bytes(bytes), counted(objects, "object"))
}

/// `1 object`, or `2 objects`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_with_one_digit() {
        let shown = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (8 << 30, "8.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ];
        for (bytes, text) in shown {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn one_object_has_no_plural() {
        assert_eq!(in_objects(1 << 20, 1), "1.0 MiB in 1 object");
        assert_eq!(in_objects(0, 0), "0 B in 0 objects");
    }
}
