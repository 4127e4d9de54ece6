//! Requests on their way through applications.

use tetris_scaler_dispatch::RequestId;

/// A request on its way through an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) application: usize,
    /// Index of its current stage.
    pub(super) stage: usize,
    /// Time of its arrival at the application, in microseconds.
    pub(super) arrived_us: u64,
    /// Sum of the objectives of its functions so far, in microseconds.
    pub(super) allowed_us: u64,
    /// Time at which it came to its current function, in microseconds.
    pub(super) routed_us: u64,
    /// Its number at the dispatcher of its current function.
    pub(super) request: RequestId,
}
