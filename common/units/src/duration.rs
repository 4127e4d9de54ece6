//! Durations.

use std::time::Duration;

use serde::{Deserializer, Serializer};

use crate::number;

/// Units that a duration is written in, with their milliseconds, the largest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// The reason that a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Another form.
    #[error(
        "expected a time such as 90s, 5m or 1h 30m, or a plain number of {unit}, found `{text}`"
    )]
    Form {
        /// Unit of plain numbers.
        unit: &'static str,
        /// The text.
        text: String,
    },
    /// A part of a unit where whole ones are expected.
    #[error("expected whole {unit}, found `{text}`")]
    Part {
        /// The unit.
        unit: &'static str,
        /// The text.
        text: String,
    },
    /// More than 64 bits count.
    #[error("expected a shorter time, found `{0}`")]
    TooLong(String),
}

/// Parses `90s`, `1h 30m`, `500ms`, `2days`, or seconds as `90` or `0.5`.
///
/// # Errors
///
/// Fails for other forms.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    parse_in(text, 1000, "seconds")
}

/// Parses whole seconds, in any unit: `90`, `90s` or `2m`.
///
/// # Errors
///
/// Fails for other forms.
pub fn parse_seconds(text: &str) -> Result<u64, DurationError> {
    whole(text, 1000, "seconds")
}

fn parse_milliseconds(text: &str) -> Result<u64, DurationError> {
    whole(text, 1, "milliseconds")
}

fn parse_hours(text: &str) -> Result<u64, DurationError> {
    whole(text, 3_600_000, "hours")
}

/// Parses a duration. A plain number counts units of `unit_ms` milliseconds.
fn parse_in(text: &str, unit_ms: u64, unit: &'static str) -> Result<Duration, DurationError> {
    let refused = || DurationError::Form {
        unit,
        text: text.to_owned(),
    };
    let trimmed = text.trim();
    if let Ok(number) = trimmed.parse::<u64>() {
        let ms = number.checked_mul(unit_ms).ok_or_else(refused)?;
        return Ok(Duration::from_millis(ms));
    }
    let fraction = trimmed.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if let Some(number) = trimmed.parse::<f64>().ok().filter(|_| fraction) {
        let seconds = number * unit_ms as f64 / 1000.0;
        return Duration::try_from_secs_f64(seconds).map_err(|_| refused());
    }
    humantime::parse_duration(trimmed).map_err(|_| refused())
}

fn whole(text: &str, unit_ms: u64, unit: &'static str) -> Result<u64, DurationError> {
    let nanos = parse_in(text, unit_ms, unit)?.as_nanos();
    let unit_ns = u128::from(unit_ms) * 1_000_000;
    if !nanos.is_multiple_of(unit_ns) {
        let text = text.to_owned();
        return Err(DurationError::Part { unit, text });
    }
    u64::try_from(nanos / unit_ns).map_err(|_| DurationError::TooLong(text.to_owned()))
}

/// Formats milliseconds exactly, in the largest unit that divides them: `90s`, `2m`, `500ms`.
fn format_ms(ms: u64) -> String {
    // 0 is a multiple of everything.
    if ms == 0 {
        return "0s".to_owned();
    }
    let fits = UNITS
        .iter()
        .find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms));
    let (unit, unit_ms) = fits.copied().unwrap_or(("ms", 1));
    format!("{}{unit}", ms / unit_ms)
}

/// Formats seconds exactly, in the largest unit that divides them: `90s`, `2m`.
pub fn format_seconds(seconds: u64) -> String {
    // More than half a billion years are written as they are.
    seconds
        .checked_mul(1000)
        .map_or_else(|| seconds.to_string(), format_ms)
}

/// A field of seconds: an integer, or a text such as `5m`.
pub mod seconds {
    use super::{Deserializer, Serializer, format_seconds, number, parse_seconds};

    /// Reads the field.
    ///
    /// # Errors
    ///
    /// That of the format, with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let expecting = "a number of seconds, or a time such as `90s` or `5m`";
        number::deserialize(deserializer, expecting, parse_seconds)
    }

    /// Writes the field as a text with its unit.
    ///
    /// # Errors
    ///
    /// That of the format.
    pub fn serialize<S: Serializer>(seconds: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_seconds(*seconds))
    }
}

/// A field of milliseconds: an integer, or a text such as `500ms`.
pub mod milliseconds {
    use super::{Deserializer, Serializer, format_ms, number, parse_milliseconds};

    /// Reads the field.
    ///
    /// # Errors
    ///
    /// That of the format, with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let expecting = "a number of milliseconds, or a time such as `500ms` or `1s`";
        number::deserialize(deserializer, expecting, parse_milliseconds)
    }

    /// Writes the field as a text with its unit.
    ///
    /// # Errors
    ///
    /// That of the format.
    pub fn serialize<S: Serializer>(ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_ms(*ms))
    }
}

/// A field of hours: an integer, or a text such as `36h` or `2d`.
pub mod hours {
    use super::{Deserializer, Serializer, number, parse_hours};

    /// Reads the field.
    ///
    /// # Errors
    ///
    /// That of the format, with the expected form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let expecting = "a number of hours, or a time such as `36h` or `2d`";
        number::deserialize(deserializer, expecting, parse_hours)
    }

    /// Writes the field as a text with its unit.
    ///
    /// # Errors
    ///
    /// That of the format.
    pub fn serialize<S: Serializer>(hours: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{hours}h"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed() {
        for (text, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("5m", 300),
            ("1h 30m", 5400),
            ("2days", 172_800),
            (" 7 ", 7),
            ("0", 0),
            ("60000ms", 60),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("0.5"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn other_texts_are_refused_with_the_expected_form() {
        for text in [
            "",
            "s",
            "-1",
            "5x",
            "1.5.0",
            "five",
            ".",
            "99999999999999999999",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("expected a time such as 90s"), "{error}");
        }
        let part = parse_seconds("500ms").unwrap_err().to_string();
        assert_eq!(part, "expected whole seconds, found `500ms`");
        let part = parse_hours("90m").unwrap_err().to_string();
        assert_eq!(part, "expected whole hours, found `90m`");
    }

    #[test]
    fn formatted_seconds_are_the_same_again() {
        for (seconds, text) in [
            (0, "0s"),
            (90, "90s"),
            (120, "2m"),
            (3600, "1h"),
            (86_400, "1d"),
            (31_622_400, "366d"),
            (u64::MAX / 1000, "18446744073709551s"),
        ] {
            assert_eq!(format_seconds(seconds), text);
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn fields_are_integers_or_texts_in_their_unit() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Fields {
            #[serde(with = "super::seconds")]
            secs: u64,
            #[serde(with = "super::milliseconds")]
            ms: u64,
            #[serde(with = "super::hours")]
            hours: u64,
        }
        let plain: Fields = serde_json::from_str(r#"{"secs":60,"ms":500,"hours":48}"#).unwrap();
        let text = r#"{"secs":"1m","ms":"500ms","hours":"48h"}"#;
        assert_eq!(serde_json::from_str::<Fields>(text).unwrap(), plain);
        assert_eq!(serde_json::to_string(&plain).unwrap(), text);
        let wrong = r#"{"secs":"5 parsecs","ms":1,"hours":1}"#;
        let error = serde_json::from_str::<Fields>(wrong)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("expected a time such as 90s"), "{error}");
    }
}
