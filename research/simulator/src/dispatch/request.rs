//! Requests to a function.

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) arrived_us: u64,
    /// Gateway that has it.
    pub(super) gateway: usize,
}
