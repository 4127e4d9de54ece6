//! Formats of sizes, CPU, times and loads for people.

use tetris_scaler_core::Rate;

/// Formats bytes with a binary unit and three significant digits: `438 MiB`, `1.21 GiB`.
pub fn bytes(value: u128) -> String {
    let mut scaled = value as f64;
    let mut name = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if scaled < 999.5 {
            break;
        }
        scaled /= 1024.0;
        name = larger;
    }
    if name == "B" {
        return format!("{value} B");
    }
    format!("{} {name}", three_digits(scaled))
}

/// Formats millicores as CPUs: `0.5`, `16`, `1.25`.
pub fn cpus(millis: u128) -> String {
    let text = format!("{}.{:03}", millis / 1_000, millis % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats microseconds with three significant digits: `850 us`, `12.5 ms`, `1.2 s`.
pub fn micros(value: u64) -> String {
    let scaled = value as f64;
    match scaled {
        us if us < 999.5 => format!("{value} us"),
        us if us < 999.5e3 => format!("{} ms", three_digits(us / 1e3)),
        us => format!("{} s", three_digits(us / 1e6)),
    }
}

/// Formats requests per second, without the unit, to a hundredth.
pub fn rps(rate: Rate) -> String {
    let text = format!("{:.2}", rate.micro_rps() as f64 / 1e6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn three_digits(value: f64) -> String {
    match value {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_the_digits_run_out() {
        let texts = [0, 999, 1_024, 1_048_575, 438 << 20, 5 << 30].map(bytes);
        assert_eq!(
            texts,
            [
                "0 B", "999 B", "1.00 KiB", "1.00 MiB", "438 MiB", "5.00 GiB"
            ]
        );
        let texts = [1, 999, 1_000, 999_499, 1_200_000].map(micros);
        assert_eq!(texts, ["1 us", "999 us", "1.00 ms", "999 ms", "1.20 s"]);
    }

    #[test]
    fn trailing_zeros_are_left_out() {
        assert_eq!(
            [0, 500, 1_250, 16_000].map(cpus),
            ["0", "0.5", "1.25", "16"]
        );
        let rates = [2_500, 7_000, 0].map(Rate::from_milli_rps);
        assert_eq!(rates.map(rps), ["2.5", "7", "0"]);
    }
}
