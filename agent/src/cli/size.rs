//! Byte sizes as people write and read them.

use std::fmt;
use std::str::FromStr;

/// The units, each 1024 times the one before.
const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes: parsed from `8GiB`, `512M`, `1.5g` or `4096`, shown as `8.0 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = format!("{} B", self.0);
        let mut value = self.0 as f64;
        for unit in UNITS {
            // What would be shown as 1024.0 belongs to the next unit.
            if value < 1023.95 {
                break;
            }
            value /= 1024.0;
            shown = format!("{value:.1} {unit}");
        }
        f.pad(&shown)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let end = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let factor = factor(unit.trim_start())
            .ok_or_else(|| format!("`{unit}` is not a unit; use K, M, G or T (powers of 1024)"))?;
        let bytes = exact(number, factor)
            .ok_or_else(|| format!("expected a size such as 8GiB, 512M or 4096, found `{text}`"))?;
        Ok(Self(bytes))
    }
}

/// Bytes of a unit. `8GB` would be 7% less than `8GiB` to some and the same to others: refused.
fn factor(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let power = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kib" => 1,
        "m" | "mib" => 2,
        "g" | "gib" => 3,
        "t" | "tib" => 4,
        _ => return None,
    };
    Some(1 << (10 * power))
}

/// `number` times `factor`, in integers as far as `number` is one.
fn exact(number: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok()? * factor as f64;
    let fits = (0.0..9e18).contains(&value) && number.bytes().any(|b| b.is_ascii_digit());
    fits.then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("1k", 1024),
            ("512M", 512 << 20),
            ("512 MiB", 512 << 20),
            ("8GiB", 8 << 30),
            ("1.5g", 3 << 29),
            ("2T", 2 << 40),
            ("7b", 7),
        ];
        for (text, bytes) in good {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "G",
            "-1",
            "1.2.3",
            "8GB",
            "8 x",
            ".",
            "99999999999T",
            "1e3",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

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
}
