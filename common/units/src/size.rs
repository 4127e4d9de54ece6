//! Sizes in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserializer, Serializer};

use crate::number;

const EXPECTING: &str = "a size in bytes, such as 4096 or `8GiB`";

/// Units that a size is written in, each 1024 times the one before.
const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes: parsed from `8GiB`, `512M`, `1.5g` or `4096`, shown with three significant digits, as `8.00 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut shown = None;
        for unit in UNITS {
            if value < 999.5 {
                break;
            }
            value /= 1024.0;
            shown = Some(unit);
        }
        f.pad(&match shown {
            Some(unit) => format!("{} {unit}", three_digits(value)),
            None => format!("{} B", self.0),
        })
    }
}

/// Formats a number below 1,000 with three significant digits.
pub fn three_digits(value: f64) -> String {
    match value {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self)
    }
}

/// The reason that a text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// Another unit.
    #[error("expected a size in K, M, G or T (powers of 1024), such as 8GiB, found `{0}`")]
    Unit(String),
    /// Another number than one of whole bytes.
    #[error("expected a size such as 8GiB, 512M or 4096, found `{0}`")]
    Number(String),
}

/// Parses `8GiB`, `8Gi`, `512M`, `1.5g` or `4096`: bytes, or powers of 1024 of them.
///
/// # Errors
///
/// Fails for other forms. `8GB` is refused: to some it is 7% less than `8GiB`.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let factor = factor(unit.trim_start()).ok_or_else(|| SizeError::Unit(text.to_owned()))?;
    exact(number, factor).ok_or_else(|| SizeError::Number(text.to_owned()))
}

/// Formats a size exactly, in the largest unit that divides it: `8GiB`, `1000`.
pub fn format(bytes: u64) -> String {
    let mut value = bytes;
    let mut unit = "";
    for larger in UNITS.into_iter().take(4) {
        if value == 0 || !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        unit = larger;
    }
    format!("{value}{unit}")
}

fn factor(unit: &str) -> Option<u64> {
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "ki" | "kib" => 1,
        "m" | "mi" | "mib" => 2,
        "g" | "gi" | "gib" => 3,
        "t" | "ti" | "tib" => 4,
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

/// Reads a field: an integer, or a text for [`parse`].
///
/// # Errors
///
/// That of the format, with the expected form.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    number::deserialize(deserializer, EXPECTING, parse)
}

/// Writes a field as [`format()`] does.
///
/// # Errors
///
/// That of the format.
pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*bytes))
}

/// The same for a field that may be left out.
pub mod optional {
    use serde::{Deserializer, Serializer};

    /// Reads a field that is there.
    ///
    /// # Errors
    ///
    /// That of the format, with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }

    /// Writes the field, or nothing.
    ///
    /// # Errors
    ///
    /// That of the format.
    pub fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_some(&super::format(*bytes)),
            None => serializer.serialize_none(),
        }
    }
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
            ("8Gi", 8 << 30),
            ("1.5g", 3 << 29),
            ("2T", 2 << 40),
            ("7b", 7),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in good {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_expected_form() {
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
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("expected a size"), "{error}");
            assert!(error.ends_with(&format!("found `{text}`")), "{error}");
        }
    }

    #[test]
    fn sizes_are_shown_with_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1023, "1.00 KiB"),
            (1536, "1.50 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (438 << 20, "438 MiB"),
            (8 << 30, "8.00 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(
            format!("{:>8}|{:<8}|", Bytes(7), Bytes(7)),
            "     7 B|7 B     |"
        );
    }

    #[test]
    fn a_formatted_size_is_the_same_size_again() {
        for (bytes, text) in [
            (0, "0"),
            (1000, "1000"),
            (1024, "1KiB"),
            (3 << 29, "1536MiB"),
            (8 << 30, "8GiB"),
            (5 << 50, "5120TiB"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(format(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
    }

    #[test]
    fn a_field_is_an_integer_or_a_text() {
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        struct Fields {
            #[serde(with = "super")]
            all: u64,
            #[serde(default, with = "super::optional")]
            most: Option<u64>,
        }
        let fields: Fields = serde_json::from_str(r#"{"all": 5, "most": "2MiB"}"#).unwrap();
        assert_eq!((fields.all, fields.most), (5, Some(2 << 20)));
        let fields: Fields = serde_json::from_str(r#"{"all": "1G"}"#).unwrap();
        assert_eq!((fields.all, fields.most), (1 << 30, None));
        let json = serde_json::to_string(&fields).unwrap();
        assert_eq!(json, r#"{"all":"1GiB","most":null}"#);
        for wrong in [r#"{"all": -1}"#, r#"{"all": true}"#, r#"{"all": "1 GB"}"#] {
            let error = serde_json::from_str::<Fields>(wrong)
                .unwrap_err()
                .to_string();
            assert!(error.contains("expected a size"), "{error}");
        }
    }
}
