//! Formats of sizes, times and rates.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Formats bytes with a binary unit: `438.0 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    let (mut scaled, mut unit) = (value, 0);
    while scaled.abs() >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).unwrap_or(&"B");
    match unit {
        0 => format!("{value:.0} {name}"),
        _ => format!("{scaled:.1} {name}"),
    }
}

/// Formats seconds with three significant digits: `6.51 ms`.
pub(crate) fn seconds(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v < 1e-3 => (value * 1e6, "us"),
        v if v < 1.0 => (value * 1e3, "ms"),
        _ => (value, "s"),
    };
    format!("{} {unit}", three_digits(scaled))
}

/// Formats three significant digits, without an exponent.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Parses a size: plain bytes, or a number with K, M, G or T, with or without `iB`. Units are
/// powers of 1024, as in the other commands.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit; use K, M, G or T (powers of 1024)"
            ));
        }
    };
    let wrong = || format!("expected a size such as 8GiB, 512M or 4096, found `{text}`");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let value = number * (1u64 << shift) as f64;
    (0.0..9e18)
        .contains(&value)
        .then_some(value as u64)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_other_commands_read_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("512M", 512 << 20),
            ("1.5 GiB", 3 << 29),
            ("0", 0),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "8GB", "-1", "1e3", "99999999T", "."] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_short() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1.5 * f64::from(1 << 30)), "1.5 GiB");
        assert_eq!(bytes(-3.0 * f64::from(1 << 20)), "-3.0 MiB");
        assert_eq!(seconds(0.006_51), "6.51 ms");
        assert_eq!(seconds(0.0), "0.00 us");
        assert_eq!(seconds(2.5), "2.50 s");
    }
}
