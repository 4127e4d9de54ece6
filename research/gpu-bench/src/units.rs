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

#[cfg(test)]
mod tests {
    use super::*;

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
