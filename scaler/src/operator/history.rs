//! History between passes: steady times of functions, and times of their reports.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{FunctionDecision, FunctionOutcome, Rate};

use super::health::{Failing, Trouble, Troubles};
use super::plan::{Action, FunctionPlan};
use crate::state::Key;

/// Minimum interval between statuses that only differ in numbers.
const REFRESH_MS: u64 = 30_000;
/// Maximum number of consolidations for about the same load, each after twice the wait. The
/// scheduler may place pods elsewhere, and the same plan would be made again and again.
const MOST_TRIES: u32 = 3;
/// Time that replacements must become ready.
const PATIENCE_MS: u64 = 15 * 60_000;
/// Time for which instances that fail after others still count, doubled with each time.
const FIRST_WAIT_MS: u64 = 60_000;
/// Maximum of that time.
const MOST_WAIT_MS: u64 = 30 * 60_000;

/// History of all functions. It is lost with the process, and then starts over.
#[derive(Debug, Clone)]
pub struct History {
    consolidate_after_ms: Option<u64>,
    functions: BTreeMap<Key, FunctionHistory>,
}

#[derive(Debug, Clone, Default)]
struct FunctionHistory {
    steady_since_ms: Option<u64>,
    retiring_since_ms: Option<u64>,
    not_before_ms: u64,
    tries: u32,
    /// Load of the last consolidation, with its headroom.
    tried_for: Option<Rate>,
    reported_ms: Option<u64>,
    failures: Failures,
}

/// Instances of a function that failed.
#[derive(Debug, Clone, Default)]
struct Failures {
    /// Names of those that are replaced.
    known: BTreeSet<String>,
    /// Number of times that instances began to fail.
    times: u32,
    /// Time before which no others are replaced.
    not_before_ms: u64,
}

impl Failures {
    fn update(&mut self, failing: &Failing, now_ms: u64) {
        let is_new = failing.replaced.iter().any(|(pod, trouble)| {
            // A lost node implies nothing about other instances.
            *trouble != Trouble::NodeLost && !self.known.contains(pod)
        });
        if is_new {
            let factor = 1_u64.checked_shl(self.times).unwrap_or(u64::MAX);
            let wait = FIRST_WAIT_MS.saturating_mul(factor).min(MOST_WAIT_MS);
            self.not_before_ms = now_ms.saturating_add(wait);
            self.times = self.times.saturating_add(1);
        } else if failing.replaced.is_empty() && now_ms >= self.not_before_ms {
            self.times = 0;
        }
        self.known = failing.replaced.keys().cloned().collect();
    }
}

impl History {
    /// Creates an empty history. Functions that were steady for `consolidate_after_ms` may replace
    /// instances to save memory; without it, none may.
    pub const fn new(consolidate_after_ms: Option<u64>) -> Self {
        Self {
            consolidate_after_ms,
            functions: BTreeMap::new(),
        }
    }

    /// Returns true if instances of `function` may be replaced.
    pub fn may_consolidate(&self, function: &Key, now_ms: u64) -> bool {
        let (Some(after), Some(one)) = (self.consolidate_after_ms, self.functions.get(function))
        else {
            return false;
        };
        let steady = one
            .steady_since_ms
            .is_some_and(|since| now_ms.saturating_sub(since) >= after);
        let underway = one.retiring_since_ms.is_some();
        underway || (steady && now_ms >= one.not_before_ms && one.tries < MOST_TRIES)
    }

    /// Returns true if its replacements had enough time.
    pub fn gives_up(&self, function: &Key, now_ms: u64) -> bool {
        let history = self.functions.get(function);
        let since = history.and_then(|function| function.retiring_since_ms);
        since.is_some_and(|since| now_ms.saturating_sub(since) >= PATIENCE_MS)
    }

    /// Returns true if its status may be written only for its numbers.
    pub fn may_report(&self, function: &Key, now_ms: u64) -> bool {
        let history = self.functions.get(function);
        let last = history.and_then(|function| function.reported_ms);
        last.is_none_or(|last| now_ms.saturating_sub(last) >= REFRESH_MS)
    }

    /// Returns the instances in trouble that others replace, and those that still count: what began to
    /// fail after others waits, longer each time.
    pub fn failing(&self, function: &Key, troubles: Troubles, now_ms: u64) -> Failing {
        let failures = self
            .functions
            .get(function)
            .map(|function| &function.failures);
        let (replaced, put_off) = troubles.into_iter().partition(|(pod, trouble)| {
            failures.is_none_or(|failure| {
                now_ms >= failure.not_before_ms
                    || *trouble == Trouble::NodeLost
                    || failure.known.contains(pod)
            })
        });
        Failing { replaced, put_off }
    }

    /// Records a plan, for functions that still exist.
    pub fn planned(&mut self, plans: &[FunctionPlan], now_ms: u64) {
        let mut rest = std::mem::take(&mut self.functions);
        for plan in plans {
            let key = &plan.record.key;
            let mut history = rest.remove(key).unwrap_or_default();
            let decision = plan.state.as_ref().map(|state| &state.decision);
            self.update(&mut history, decision, now_ms);
            history.failures.update(&plan.failing, now_ms);
            if plan
                .actions
                .iter()
                .any(|action| matches!(action, Action::Status(_)))
            {
                history.reported_ms = Some(now_ms);
            }
            self.functions.insert(key.clone(), history);
        }
    }

    fn update(&self, one: &mut FunctionHistory, decision: Option<&FunctionDecision>, now_ms: u64) {
        if let (Some(tried), Some(decision)) = (one.tried_for, decision)
            && differs(tried, decision.needed)
        {
            (one.tries, one.tried_for) = (0, None);
        }
        match decision.map(|decision| (&decision.outcome, decision.needed)) {
            Some((FunctionOutcome::Consolidating { .. }, needed)) => {
                if one.retiring_since_ms.is_none() {
                    one.retiring_since_ms = Some(now_ms);
                    let times = 1_u64.checked_shl(one.tries).unwrap_or(u64::MAX);
                    let wait = self.consolidate_after_ms.unwrap_or(0);
                    one.not_before_ms = now_ms.saturating_add(wait.saturating_mul(times));
                    one.tries = one.tries.saturating_add(1);
                    one.tried_for = Some(needed);
                }
                one.steady_since_ms = None;
            }
            Some((FunctionOutcome::Steady, _)) => {
                one.retiring_since_ms = None;
                one.steady_since_ms.get_or_insert(now_ms);
            }
            _ => {
                one.retiring_since_ms = None;
                one.steady_since_ms = None;
            }
        }
    }
}

/// Returns true if the load changed by more than a quarter.
fn differs(before: Rate, now: Rate) -> bool {
    let (before, now) = (before.micro_rps(), now.micro_rps());
    before.abs_diff(now) > before / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVING: FunctionOutcome = FunctionOutcome::Consolidating {
        starting: 1,
        retiring: 1,
    };

    fn decision(outcome: &FunctionOutcome, rps: u64) -> FunctionDecision {
        FunctionDecision {
            replicas: BTreeMap::new(),
            start: BTreeMap::new(),
            release: Vec::new(),
            retiring: Vec::new(),
            ranking: Vec::new(),
            preferred: BTreeMap::new(),
            capacity: Rate::ZERO,
            ready: Rate::ZERO,
            needed: Rate::from_rps(rps),
            outcome: outcome.clone(),
        }
    }

    #[test]
    fn replacing_waits_for_steadiness_backs_off_and_ends() {
        let (mut history, key) = (History::new(Some(1_000)), Key::new("blue", "f"));
        let mut history_of_one = FunctionHistory::default();
        let mut see = |history: &mut History, outcome: &FunctionOutcome, rps, now| {
            history.update(&mut history_of_one, Some(&decision(outcome, rps)), now);
            history
                .functions
                .insert(Key::new("blue", "f"), history_of_one.clone());
        };
        see(&mut history, &FunctionOutcome::Steady, 100, 0);
        assert!(!history.may_consolidate(&key, 999));
        assert!(history.may_consolidate(&key, 1_000));
        see(&mut history, &SAVING, 100, 1_000);
        assert!(history.may_consolidate(&key, 1_500), "it is underway");
        assert!(!history.gives_up(&key, 1_500));
        assert!(history.gives_up(&key, 1_000 + PATIENCE_MS));
        see(&mut history, &FunctionOutcome::Steady, 100, 2_000);
        assert!(history.may_consolidate(&key, 3_000));
        see(&mut history, &SAVING, 100, 3_000);
        see(&mut history, &FunctionOutcome::Steady, 100, 3_001);
        assert!(
            !history.may_consolidate(&key, 4_500),
            "it waits twice as long"
        );
        assert!(history.may_consolidate(&key, 5_000));
        see(&mut history, &SAVING, 100, 5_000);
        see(&mut history, &FunctionOutcome::Steady, 120, 5_001);
        assert!(!history.may_consolidate(&key, u64::MAX), "often enough");
        see(&mut history, &FunctionOutcome::Steady, 126, 5_002);
        assert!(
            history.may_consolidate(&key, u64::MAX),
            "the load is another"
        );
        assert!(!History::new(None).may_consolidate(&key, u64::MAX));
    }

    #[test]
    fn what_fails_after_others_waits_longer_each_time_unless_its_node_is_lost() {
        let (history, key) = (History::new(None), Key::new("blue", "f"));
        let mut history = history;
        let crashed = |pods: &[&str]| -> Troubles {
            let trouble = Trouble::Waiting("CrashLoopBackOff");
            pods.iter()
                .map(|pod| ((*pod).to_owned(), trouble))
                .collect()
        };
        let mut see = |pods: &[&str], lost: &[&str], now: u64| -> (usize, usize) {
            let mut all = crashed(pods);
            all.extend(
                lost.iter()
                    .map(|pod| ((*pod).to_owned(), Trouble::NodeLost)),
            );
            let failing = history.failing(&key, all, now);
            let history_of_function = history.functions.entry(key.clone()).or_default();
            history_of_function.failures.update(&failing, now);
            (failing.replaced.len(), failing.put_off.len())
        };
        assert_eq!(see(&["a", "b"], &[], 0), (2, 0), "at once");
        assert_eq!(see(&["a", "b", "c"], &["d"], 59_999), (3, 1));
        assert_eq!(see(&["a", "b", "c"], &[], 60_000), (3, 0));
        assert_eq!(see(&["a", "b", "c", "e"], &[], 179_999), (3, 1));
        assert_eq!(see(&["a", "b", "c", "e"], &[], 180_000), (4, 0));
        assert_eq!(see(&[], &[], 500_000), (0, 0), "all is well again");
        assert_eq!(see(&["f"], &[], 500_001), (1, 0));
        assert_eq!(see(&["f", "g"], &[], 560_000), (1, 1));
        assert_eq!(see(&["f", "g"], &[], 560_001), (2, 0));
    }
}
