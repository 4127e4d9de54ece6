//! Values of fields.

use std::str;

/// Latest time in a file, in seconds: beyond any of the epoch's until 2096.
pub(super) const MAX_TIME_S: u64 = 4_000_000_000;
/// Longest duration, in seconds: 46 days.
pub(super) const MAX_DURATION_S: u64 = 4_000_000;

/// Parses a number of requests; `None` if it is not one below 2^32.
pub(super) fn count(field: &[u8]) -> Option<u32> {
    let digits = field.iter().all(u8::is_ascii_digit);
    str::from_utf8(field).ok().filter(|_| digits)?.parse().ok()
}

/// Parses seconds, with or without decimals, and returns them in microseconds; `None` if the field is no number from 0
/// to `most_s`.
///
/// Parsing and multiplication round alike on every machine.
pub(super) fn seconds_us(field: &[u8], most_s: u64) -> Option<u64> {
    let seconds: f64 = str::from_utf8(field).ok()?.parse().ok()?;
    let in_range = (0.0..=most_s as f64).contains(&seconds);
    in_range.then(|| (seconds * 1e6).round() as u64)
}

/// Returns the start of a field for a message, printable whatever its bytes.
pub(super) fn shown(field: &[u8]) -> String {
    const MOST: usize = 60;
    let start = field.get(..MOST).unwrap_or(field);
    let rest = if field.len() > MOST { "..." } else { "" };
    format!("{}{rest}", start.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers() {
        assert_eq!(count(b"0"), Some(0));
        assert_eq!(count(b"4294967295"), Some(u32::MAX));
        for field in ["", "4294967296", "-1", "+1", "1.5", "NaN", " 1", "1e3"] {
            assert_eq!(count(field.as_bytes()), None, "{field}");
        }
        assert_eq!(count(&[0xff, 0x31]), None);
    }

    #[test]
    fn seconds_have_microseconds() {
        assert_eq!(
            seconds_us(b"5160.142570018768", MAX_TIME_S),
            Some(5_160_142_570)
        );
        assert_eq!(
            seconds_us(b"19440110.0", MAX_TIME_S),
            Some(19_440_110_000_000)
        );
        assert_eq!(seconds_us(b"5e-05", MAX_TIME_S), Some(50));
        assert_eq!(
            seconds_us(b"4000000", MAX_DURATION_S),
            Some(4_000_000_000_000)
        );
        for field in ["", "-1", "NaN", "inf", "1e300", "4000000.1", "1,5", "0x1"] {
            assert_eq!(
                seconds_us(field.as_bytes(), MAX_DURATION_S),
                None,
                "{field}"
            );
        }
        assert_eq!(seconds_us(&[0xff], MAX_TIME_S), None);
    }

    #[test]
    fn a_message_shows_any_bytes() {
        assert_eq!(shown(b"a\n\xff"), "a\\n\\xff");
        assert_eq!(shown(&[b'x'; 70]), format!("{}...", "x".repeat(60)));
    }
}
