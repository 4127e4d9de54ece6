//! Health of an instance as its requests show it.

use crate::rules::Ejection;

/// Number of answers in a row after which earlier ejections are forgotten.
const FORGETS: u32 = 16;

/// Ejections and failures of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Health {
    state: State,
    failures: u32,
    answers: u32,
    ejections: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum State {
    #[default]
    Good,
    /// Gets no requests.
    Ejected { until_us: u64 },
    /// Gets one request at a time, until one is answered.
    Probation,
}

impl Health {
    /// Ends an ejection whose time is over.
    pub(crate) fn advance(&mut self, now_us: u64) {
        if let State::Ejected { until_us } = self.state
            && until_us <= now_us
        {
            self.state = State::Probation;
        }
    }

    pub(crate) fn is_ejected(self) -> bool {
        matches!(self.state, State::Ejected { .. })
    }

    pub(crate) fn is_on_probation(self) -> bool {
        self.state == State::Probation
    }

    /// End of the ejection.
    pub(crate) fn ejected_until_us(self) -> Option<u64> {
        match self.state {
            State::Ejected { until_us } => Some(until_us),
            State::Good | State::Probation => None,
        }
    }

    pub(crate) fn answered(&mut self) {
        // An answer to an earlier request does not end an ejection.
        if self.is_ejected() {
            return;
        }
        self.state = State::Good;
        self.failures = 0;
        self.answers = self.answers.saturating_add(1);
        if self.answers >= FORGETS {
            self.ejections = 0;
        }
    }

    /// Counts a failure. `unreachable` alone ejects, as does a failure on probation; `allowed` means
    /// that one more instance may be ejected.
    pub(crate) fn failed(
        &mut self,
        now_us: u64,
        unreachable: bool,
        allowed: bool,
        rules: &Ejection,
    ) {
        self.answers = 0;
        self.failures = self.failures.saturating_add(1);
        let enough = unreachable || self.is_on_probation() || self.failures >= rules.failures;
        if self.is_ejected() || !enough || !allowed {
            return;
        }
        let doubled = rules.first_us.saturating_mul(1 << self.ejections.min(32));
        self.ejections = self.ejections.saturating_add(1);
        self.failures = 0;
        let until_us = now_us.saturating_add(doubled.min(rules.longest_us));
        self.state = State::Ejected { until_us };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Ejection = Ejection {
        failures: 2,
        first_us: 100,
        longest_us: 300,
        most_percent: 100,
    };

    #[test]
    fn failures_in_a_row_eject_and_answers_between_them_do_not() {
        let mut health = Health::default();
        for _ in 0..5 {
            health.failed(0, false, true, &RULES);
            assert!(!health.is_ejected());
            health.answered();
        }
        health.failed(0, false, true, &RULES);
        health.failed(0, false, true, &RULES);
        assert_eq!(health.ejected_until_us(), Some(100));
    }

    #[test]
    fn an_ejection_ends_in_probation_and_the_next_one_is_twice_as_long() {
        let mut health = Health::default();
        let mut now_us = 0;
        for expected_us in [100, 200, 300, 300] {
            health.failed(now_us, true, true, &RULES);
            let until_us = health.ejected_until_us().unwrap();
            assert_eq!(until_us - now_us, expected_us);
            health.advance(until_us - 1);
            assert!(health.is_ejected());
            now_us = until_us;
            health.advance(now_us);
            assert!(health.is_on_probation());
        }
        for _ in 0..FORGETS {
            health.answered();
        }
        assert!(!health.is_on_probation());
        health.failed(now_us, true, true, &RULES);
        assert_eq!(
            health.ejected_until_us(),
            Some(now_us + 100),
            "forgotten after enough answers"
        );
    }

    #[test]
    fn an_instance_is_not_ejected_where_too_many_are() {
        let mut health = Health::default();
        for _ in 0..9 {
            health.failed(0, true, false, &RULES);
        }
        assert!(!health.is_ejected());
    }

    #[test]
    fn an_answer_to_an_earlier_request_does_not_end_an_ejection() {
        let mut health = Health::default();
        health.failed(0, true, true, &RULES);
        health.answered();
        assert!(health.is_ejected());
    }
}
