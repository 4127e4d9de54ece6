//! Times and durations as they are printed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age of `at`, to the second: `3m 2s ago`.
pub(crate) fn ago(at: SystemTime) -> String {
    let age = SystemTime::now().duration_since(at).unwrap_or_default();
    if age < Duration::from_secs(1) {
        return "now".into();
    }
    // Two units tell all that people want to know.
    let text = humantime::format_duration(Duration::from_secs(age.as_secs())).to_string();
    let units: Vec<&str> = text.split(' ').take(2).collect();
    format!("{} ago", units.join(" "))
}

/// A duration in the unit that leaves few digits.
pub(crate) fn took(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.001 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// Seconds since the epoch.
pub(crate) fn unix_s(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_few_digits() {
        assert_eq!(took(Duration::from_micros(250)), "250 us");
        assert_eq!(took(Duration::from_micros(12_340)), "12.3 ms");
        assert_eq!(took(Duration::from_millis(61_230)), "61.23 s");
    }

    #[test]
    fn ages_have_two_units() {
        let now = SystemTime::now();
        assert_eq!(ago(now + Duration::from_mins(1)), "now");
        let hours = ago(now - Duration::from_secs(3 * 3600 + 62));
        assert_eq!(hours, "3h 1m ago");
    }
}
