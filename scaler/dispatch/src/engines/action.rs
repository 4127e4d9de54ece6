//! Actions for the group's owner, and facts that it passes on.

use super::id::EngineId;
use super::rejection::EngineRejection;
use crate::id::RequestId;

/// An action for the owner of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a request to its engine.
    Dispatch {
        /// The request.
        request: RequestId,
        /// Its engine.
        engine: EngineId,
        /// Time for which it has waited.
        waited_us: u64,
    },
    /// Refuse a waiting request, which the group has forgotten.
    Refuse {
        /// The request.
        request: RequestId,
        /// The reason.
        rejection: EngineRejection,
    },
    /// End a request at its engine: the engine must sleep. The group waits for [`super::EngineGroup::complete`].
    Cut {
        /// The request.
        request: RequestId,
    },
    /// Order an engine to sleep, and pass on the result to [`super::EngineGroup::slept`].
    Sleep(EngineId),
    /// Order an engine to wake up, and pass on the result to [`super::EngineGroup::woke`].
    Wake(EngineId),
}

/// A fact about an engine, from the engine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is awake.
    Awake,
    /// It sleeps.
    Asleep,
    /// Nothing listens at its address.
    NoProcess,
    /// It does not answer in time.
    Silent,
    /// It does not have the paths to sleep and wake up.
    NoPaths,
}
