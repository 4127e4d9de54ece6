//! Numbers of a pool, for metrics.

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests given to a GPU with their model.
    pub hits: u64,
    /// Requests given to a GPU that had to load their model.
    pub loads: u64,
    /// Bytes of these loads, by the gateway's record.
    pub load_bytes: u64,
    /// Models evicted for loads.
    pub evictions: u64,
    /// Requests refused since no GPU could have them in time.
    pub late: u64,
    /// Requests that their executor did not get, and that waited again.
    pub given_back: u64,
    /// Executors that ceased to answer.
    pub lost: u64,
    /// Pages of executors that were above a limit or could not be read.
    pub refused_pages: u64,
}

/// State of a pool at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolReport {
    /// Name of the pool.
    pub name: String,
    /// Counters.
    pub totals: Totals,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Number of executors that take requests.
    pub available: usize,
    /// Number of executors that do not.
    pub lost: usize,
    /// Number of those whose last page was refused.
    pub unusable: usize,
}
