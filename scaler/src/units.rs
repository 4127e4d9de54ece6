//! Formats of sizes, CPU, times and loads for people.

use tetris_scaler_core::Rate;
use tetris_units::size::{Bytes, three_digits};

/// Formats bytes, e.g. as `438 MiB`.
pub fn bytes(value: u128) -> String {
    Bytes(u64::try_from(value).unwrap_or(u64::MAX)).to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_the_digits_run_out() {
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
