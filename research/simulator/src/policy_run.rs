//! Run of one policy on one trace.

use serde::Serialize;
use tetris_simulation::TraceSource;

use crate::outcome::RunOutcome;
use crate::policy::Policy;

/// One policy on one trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyRun {
    /// Name of the application, or "all" for all of them together.
    pub cell: &'static str,
    /// Kind of the trace, or the format of its file.
    pub kind: TraceSource,
    /// Scaling policy.
    pub policy: Policy,
    /// Result of the run.
    pub outcome: RunOutcome,
}
