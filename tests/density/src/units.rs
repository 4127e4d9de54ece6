//! Formats of sizes and durations.

/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// Formats bytes with a binary unit and three significant digits: `438 MiB`, `1.21 GiB`.
pub fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value} B")
    } else {
        format!("{} {}", three_digits(scaled), units[unit])
    }
}

/// Formats bytes like [`bytes`], with a sign for negative values.
pub fn signed_bytes(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(value.unsigned_abs()))
}

/// Formats a duration in nanoseconds with three significant digits: `6.51 ms`.
pub fn nanoseconds(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v < 1e3 => (v, "ns"),
        v if v < 1e6 => (v / 1e3, "us"),
        v if v < 1e9 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(scaled))
}

/// Formats three significant digits, without an exponent.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(438 * MIB), "438 MiB");
        assert_eq!(bytes(1_300 * MIB), "1.27 GiB");
        assert_eq!(signed_bytes(-3 * MIB.cast_signed()), "-3.00 MiB");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(nanoseconds(6_510_000.0), "6.51 ms");
        assert_eq!(nanoseconds(0.0), "0.00 ns");
        assert_eq!(nanoseconds(2.5e9), "2.50 s");
    }
}
