//! Outcomes of dispatched requests.

/// The end of a request on its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The instance answered.
    Served,
    /// The instance broke off, answered with its own fault, or not in time.
    Failed,
}
