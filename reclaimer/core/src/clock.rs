//! Time of the daemon, which goes on evenly when the system's clock is set.
//!
//! Files carry times of the system's clock. A daemon that compared them with a clock that was set back would keep objects until
//! it had caught up, and would free all of them after it was set forward. So ages are counted on a time line that begins with
//! the system's clock and follows the monotonic one, and times of files are brought to it.

/// A difference between the clocks that counts as a step of the system's clock, in milliseconds. Adjustments without a step
/// change both clocks.
const STEP_MS: u64 = 1_000;
/// Most steps that are remembered: earlier times of files count as those of the oldest remembered part.
const MOST_PARTS: usize = 32;

/// The daemon's time line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    /// Parts between two steps of the system's clock, in order. None before the first reading.
    parts: Vec<Part>,
    /// Time of the last reading.
    now_ms: u64,
}

/// Times between two steps of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Its begin on the time line, in milliseconds.
    begin_ms: u64,
    /// The system's clock less the time line, in milliseconds.
    ahead_ms: i128,
    /// The time line less the monotonic clock, in milliseconds; the same in all parts.
    since_ms: i128,
}

impl Clock {
    /// Reads both clocks, in milliseconds: the system's since the epoch, the monotonic one since any moment. Returns the time
    /// on the time line, which never goes back.
    pub fn read(&mut self, system_ms: u64, monotonic_ms: u64) -> u64 {
        let (system, monotonic) = (i128::from(system_ms), i128::from(monotonic_ms));
        let Some(last) = self.parts.last().copied() else {
            self.parts.push(Part {
                begin_ms: system_ms,
                ahead_ms: 0,
                since_ms: system.saturating_sub(monotonic),
            });
            self.now_ms = system_ms;
            return system_ms;
        };
        let now = monotonic.saturating_add(last.since_ms);
        self.now_ms = u64::try_from(now).unwrap_or_default().max(self.now_ms);
        let ahead_ms = system.saturating_sub(i128::from(self.now_ms));
        if ahead_ms.abs_diff(last.ahead_ms) >= u128::from(STEP_MS) {
            if self.parts.len() >= MOST_PARTS {
                self.parts.remove(0);
            }
            self.parts.push(Part {
                begin_ms: self.now_ms,
                ahead_ms,
                since_ms: last.since_ms,
            });
        }
        self.now_ms
    }

    /// Step of the system's clock at the last reading, in milliseconds, since the daemon began.
    pub fn ahead_ms(&self) -> i128 {
        self.parts.last().map_or(0, |part| part.ahead_ms)
    }

    /// Returns the moment of a file's time on the time line, in milliseconds.
    ///
    /// Where two parts have the same time of the system's clock, it is the later one: nothing counts as older than it is. A
    /// time that no part had, such as one in the future, counts as the begin of the current part, and ages from there.
    pub fn moment_ms(&self, file_ms: u64) -> u64 {
        let Some(last) = self.parts.last() else {
            return file_ms;
        };
        let mut end = i128::from(self.now_ms);
        for (index, part) in self.parts.iter().enumerate().rev() {
            let moment = i128::from(file_ms).saturating_sub(part.ahead_ms);
            let begin = if index == 0 {
                i128::MIN
            } else {
                i128::from(part.begin_ms)
            };
            // Clocks are read at different times: a file may be younger than the last reading.
            let slack = i128::from(STEP_MS);
            if moment >= begin && moment <= end.saturating_add(slack) {
                return u64::try_from(moment.min(end)).unwrap_or_default();
            }
            end = i128::from(part.begin_ms);
        }
        last.begin_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000;
    const START: u64 = 400_000 * HOUR;

    fn started() -> Clock {
        let mut clock = Clock::default();
        assert_eq!(clock.read(START, 5), START);
        clock
    }

    #[test]
    fn without_steps_it_is_the_systems_clock() {
        let mut clock = started();
        assert_eq!(clock.read(START + 900, 905), START + 900);
        assert_eq!(clock.ahead_ms(), 0);
        for file in [0, 7, START - HOUR, START, START + 900] {
            assert_eq!(clock.moment_ms(file), file);
        }
    }

    #[test]
    fn a_time_in_the_future_counts_as_the_begin_and_ages() {
        let mut clock = started();
        assert_eq!(clock.moment_ms(START + 9 * HOUR), START);
        clock.read(START + HOUR, 5 + HOUR);
        assert_eq!(clock.moment_ms(START + 9 * HOUR), START);
        assert_eq!(Clock::default().moment_ms(7), 7);
    }

    #[test]
    fn files_keep_their_age_when_the_clock_is_set_back() {
        let mut clock = started();
        clock.read(START + HOUR, 5 + HOUR);
        // A year back, ten minutes later.
        let back = START + HOUR - 365 * 24 * HOUR;
        let now = clock.read(back, 5 + HOUR + 600_000);
        assert_eq!(now, START + HOUR + 600_000);
        assert_eq!(now - clock.moment_ms(START + HOUR), 600_000);
        assert_eq!(now - clock.moment_ms(START - HOUR), 2 * HOUR + 600_000);
        // A file written after it.
        let now = clock.read(back + HOUR, 5 + 2 * HOUR + 600_000);
        assert_eq!(now - clock.moment_ms(back + HOUR / 2), HOUR / 2);
    }

    #[test]
    fn files_keep_their_age_when_the_clock_is_set_forward() {
        let mut clock = started();
        clock.read(START + HOUR, 5 + HOUR);
        let ahead = START + 1_000 * HOUR;
        let now = clock.read(ahead, 5 + 2 * HOUR);
        assert_eq!(now, START + 2 * HOUR);
        assert_eq!(now - clock.moment_ms(START + HOUR), HOUR);
        let now = clock.read(ahead + HOUR, 5 + 3 * HOUR);
        assert_eq!(now - clock.moment_ms(ahead), HOUR);
    }

    proptest! {
        #[test]
        fn the_time_line_follows_the_monotonic_clock_through_any_steps(
            steps in prop::collection::vec((0..10 * HOUR, -100_000_000_000_i64..100_000_000_000), 1..60)
        ) {
            let mut clock = Clock::default();
            let mut monotonic = 0;
            let first = clock.read(START, 0);
            let (mut system, mut stamps) = (i64::try_from(START).unwrap(), Vec::new());
            for (passed, step) in steps {
                monotonic += passed;
                system += i64::try_from(passed).unwrap() + step;
                let now = clock.read(u64::try_from(system.max(0)).unwrap(), monotonic);
                prop_assert_eq!(now, first + monotonic);
                system = system.max(0);
                // A file that is written now has no age, and none counts as younger than that.
                let moment = clock.moment_ms(u64::try_from(system).unwrap());
                prop_assert!(now - moment <= STEP_MS, "{} {}", now, moment);
                stamps.push((u64::try_from(system).unwrap(), now));
                prop_assert!(clock.parts.len() <= MOST_PARTS);
                for (stamp, written) in stamps.iter().rev().take(MOST_PARTS - 1) {
                    let moment = clock.moment_ms(*stamp);
                    prop_assert!(moment <= now);
                    prop_assert!(moment + STEP_MS >= *written, "counts as older than it is");
                }
            }
        }
    }
}
