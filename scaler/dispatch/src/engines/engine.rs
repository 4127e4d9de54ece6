//! An engine as its group knows it.

use std::collections::BTreeSet;

use super::action::Finding;
use super::rules::EngineRules;
use crate::id::RequestId;

/// Consecutive questions without an answer after which an awake engine counts as silent: a busy one may be slow.
const SILENCES: u32 = 3;
/// First and longest pause after a failed order, in microseconds.
const FIRST_PAUSE_US: u64 = 1_000_000;
const LONGEST_PAUSE_US: u64 = 60_000_000;

/// State of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineState {
    /// Not asked yet, or an order has failed since.
    Unknown,
    /// No process listens at its address.
    Gone,
    /// Does not answer.
    Silent {
        /// True if it may have the memory of an awake engine.
        awake: bool,
    },
    /// Cannot sleep.
    NoPaths,
    /// Takes requests.
    Awake,
    /// Takes no more requests, and sleeps once those that it has ended.
    Draining {
        /// Time at which its requests are cut off, or at which it sleeps with them.
        until_us: u64,
        /// True if they were cut off.
        cut: bool,
    },
    /// Ordered to sleep.
    FallingAsleep,
    /// Sleeps.
    Asleep,
    /// Ordered to wake up.
    Waking,
}

impl EngineState {
    /// Name of the state, for reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Gone => "gone",
            Self::Silent { .. } => "silent",
            Self::NoPaths => "no-paths",
            Self::Awake => "awake",
            Self::Draining { .. } => "draining",
            Self::FallingAsleep => "falling-asleep",
            Self::Asleep => "asleep",
            Self::Waking => "waking",
        }
    }
}

/// An engine.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) rules: EngineRules,
    pub(super) state: EngineState,
    /// Requests that wait, in the order of their arrival.
    pub(super) waiting: BTreeSet<RequestId>,
    pub(super) running: BTreeSet<RequestId>,
    /// Time of its last request.
    pub(super) used_us: u64,
    /// Time of its wake; `None` if it was found awake, and then no residence protects it.
    pub(super) since_us: Option<u64>,
    /// Times before which it is not ordered to sleep or to wake up again.
    pub(super) no_sleep_before_us: u64,
    pub(super) no_wake_before_us: u64,
    /// True if its waiting requests must be refused since a wake failed.
    pub(super) wake_failed: bool,
    /// Number of changes of its state: an answer to a question before the last one does not count.
    pub(super) epoch: u64,
    failures: u32,
    silences: u32,
}

impl Engine {
    pub(super) const fn new(rules: EngineRules) -> Self {
        Self {
            rules,
            state: EngineState::Unknown,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            used_us: 0,
            since_us: None,
            no_sleep_before_us: 0,
            no_wake_before_us: 0,
            wake_failed: false,
            epoch: 0,
            failures: 0,
            silences: 0,
        }
    }

    pub(super) const fn enter(&mut self, state: EngineState) {
        self.state = state;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Memory that it has, or may have.
    pub(super) const fn occupied(&self) -> u64 {
        match self.state {
            EngineState::Gone => 0,
            EngineState::Asleep | EngineState::Silent { awake: false } => self.rules.asleep,
            _ => self.rules.awake,
        }
    }

    /// Memory that its sleep frees, or its wake takes.
    pub(super) const fn difference(&self) -> u64 {
        self.rules.awake.saturating_sub(self.rules.asleep)
    }

    /// True if the group cannot move it.
    pub(super) const fn is_stuck(&self) -> bool {
        matches!(
            self.state,
            EngineState::NoPaths | EngineState::Silent { .. }
        )
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Time from which on it may be ordered to sleep.
    pub(super) fn resident_until_us(&self, residence_us: u64) -> u64 {
        let resident = self
            .since_us
            .map_or(0, |at| at.saturating_add(residence_us));
        resident.max(self.no_sleep_before_us)
    }

    /// True if it can take a request at once.
    pub(super) fn has_room(&self) -> bool {
        self.state == EngineState::Awake && self.running.len() < self.rules.requests
    }

    /// Takes the end of an order.
    pub(super) fn ordered(&mut self, now_us: u64, succeeded: bool) {
        let wakes = self.state == EngineState::Waking;
        if succeeded {
            self.failures = 0;
            if wakes {
                self.wake(now_us);
            } else {
                self.enter(EngineState::Asleep);
            }
            return;
        }
        let doubled = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        let pause = FIRST_PAUSE_US.saturating_mul(doubled).min(LONGEST_PAUSE_US);
        let until = now_us.saturating_add(pause);
        self.failures = self.failures.saturating_add(1);
        if wakes {
            self.no_wake_before_us = until;
            self.wake_failed = true;
        } else {
            self.no_sleep_before_us = until;
        }
        self.enter(EngineState::Unknown);
    }

    const fn wake(&mut self, now_us: u64) {
        self.since_us = Some(now_us);
        self.used_us = now_us;
        self.no_wake_before_us = 0;
        self.enter(EngineState::Awake);
    }

    /// Takes the answer to a question since the last change.
    pub(super) fn learn(&mut self, now_us: u64, finding: Finding) {
        let is_awake = matches!(
            self.state,
            EngineState::Awake | EngineState::Draining { .. }
        );
        self.silences = if finding == Finding::Silent {
            self.silences.saturating_add(1)
        } else {
            0
        };
        let state = match finding {
            Finding::Awake if is_awake => return,
            Finding::Awake if self.state == EngineState::Unknown => {
                self.no_wake_before_us = 0;
                EngineState::Awake
            }
            Finding::Awake => return self.wake(now_us),
            Finding::Asleep => EngineState::Asleep,
            Finding::NoProcess => EngineState::Gone,
            Finding::Silent if is_awake && self.silences < SILENCES => return,
            Finding::Silent => EngineState::Silent {
                awake: !matches!(
                    self.state,
                    EngineState::Asleep | EngineState::Silent { awake: false }
                ),
            },
            Finding::NoPaths => EngineState::NoPaths,
        };
        if state != self.state {
            self.enter(state);
        }
    }
}
