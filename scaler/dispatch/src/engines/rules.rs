//! Rules of a group of engines. Times are in microseconds.

/// Rules of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRules {
    /// Memory of the device for engines, in bytes or in any other unit that [`EngineRules`] share.
    pub capacity: u64,
    /// Maximum number of waiting requests.
    pub queue: usize,
    /// Least time awake.
    pub residence_us: u64,
    /// Wait of a request after which a busy engine makes room for it.
    pub turn_us: u64,
    /// Longest time for requests of an engine to end before they are cut off.
    pub drain_us: u64,
    /// Longest time for cut requests to end before the engine sleeps all the same.
    pub cut_us: u64,
    /// Time without requests after which an engine sleeps; `None` for never.
    pub idle_us: Option<u64>,
}

/// Rules of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRules {
    /// Memory that it takes while it is awake.
    pub awake: u64,
    /// Memory that it takes while it sleeps.
    pub asleep: u64,
    /// Maximum number of requests at a time.
    pub requests: usize,
}
