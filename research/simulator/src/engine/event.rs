//! Events of a simulation.

use super::job::Job;

/// A kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A request for an application.
    Arrival { application: usize },
    /// An instance has loaded.
    Ready { instance: usize },
    /// The batch timeout of an instance's oldest request.
    Waited { instance: usize },
    /// A finished batch.
    Done { instance: usize, jobs: Vec<Job> },
    /// A pass of the scaler.
    Tick,
}
