//! Loads, for reports and for the operator.

use crate::id::InstanceId;

/// Load of a function at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionLoad {
    /// Number of waiting requests.
    pub waiting: usize,
    /// Number of dispatched requests without an outcome.
    pub in_flight: usize,
    /// Number of instances that take requests: neither draining nor ejected.
    pub available: usize,
}

/// Load of an instance at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceLoad {
    /// The instance.
    pub instance: InstanceId,
    /// Number of its requests without an outcome.
    pub outstanding: u64,
    /// Largest number of requests that it gets from this gateway.
    pub room: u64,
    /// True if it gets no more requests.
    pub draining: bool,
    /// True if it gets none for a time, since it failed.
    pub ejected: bool,
    /// Factor by which it is slower than profiled, in thousandths, at least 1,000.
    pub slowdown_permille: u64,
}
