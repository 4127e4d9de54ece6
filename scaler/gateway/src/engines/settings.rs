//! Settings of a group.

use std::time::Duration;

use tetris_scaler_dispatch::engines::GroupRules;

/// Level of an engine's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepLevel {
    /// Weights go to the host's memory.
    One,
    /// Weights are dropped, and read again by the wake.
    Two,
}

/// Settings of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupSettings {
    pub(crate) rules: GroupRules,
    pub(crate) level: SleepLevel,
    /// Longest time of an order to sleep.
    pub(crate) sleep: Duration,
    /// Longest time of a wake.
    pub(crate) wake: Duration,
    /// Interval of the questions to each engine for its state.
    pub(crate) poll: Duration,
    /// Longest time for which a request waits.
    pub(crate) wait: Duration,
    /// Objective of a request's latency.
    pub(crate) slo: Duration,
    /// True if the capacity is a number of engines, not of bytes.
    pub(crate) is_count: bool,
}
