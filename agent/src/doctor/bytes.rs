//! Numbers of bytes in words.

use std::fmt;

/// The units, each 1024 times the one before.
const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes, shown as `8.0 GiB`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut shown = None;
        for unit in UNITS {
            // A value that would be shown as 1024.0 belongs to the next unit.
            if value < 1023.95 {
                break;
            }
            value /= 1024.0;
            shown = Some(unit);
        }
        match shown {
            Some(unit) => write!(f, "{value:.1} {unit}"),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_with_one_digit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
