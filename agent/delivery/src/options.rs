//! Options of a pull.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use glob::Pattern;
use tetris_loader::ProgressFn;

use crate::error::PullError;

/// Connections of a pull where nothing else is said.
pub const DEFAULT_CONNECTIONS: NonZeroUsize = match NonZeroUsize::new(16) {
    Some(connections) => connections,
    None => NonZeroUsize::MIN,
};

/// Options of a pull.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PullOptions {
    /// Files to pull, by their paths at the source; all that a model needs where there is none.
    pub include: Vec<Pattern>,
    /// Files to leave out.
    pub exclude: Vec<Pattern>,
    /// Most ranges fetched at once.
    pub connections: NonZeroUsize,
    /// Most bytes per second, over all connections.
    pub bytes_per_second: Option<NonZeroU64>,
    /// Time without a byte after which a range is asked for again. A range that brings less than 16 KiB per second over that time ends as well.
    pub stall: Duration,
    /// Most attempts in a row without a MiB of progress, for one range.
    pub attempts: u32,
    /// Names with ports of nodes to ask for manifests, e.g. `tetris-models:8080`. Each may stand for many.
    pub peers: Vec<String>,
    /// Threads that hash and write.
    pub threads: NonZeroUsize,
    /// Receives the progress: bytes of all files, those that the store has included.
    pub progress: Option<ProgressFn>,
}

impl PullOptions {
    /// Sets the files to pull and those to leave out, as patterns with `*`, `?` and `[...]`.
    ///
    /// # Errors
    /// When a pattern is invalid.
    pub fn with_patterns(
        mut self,
        include: &[String],
        exclude: &[String],
    ) -> Result<Self, PullError> {
        let parse = |texts: &[String]| {
            let pattern = |text: &String| {
                Pattern::new(text).map_err(|error| PullError::Pattern {
                    pattern: text.clone(),
                    problem: error.to_string(),
                })
            };
            texts.iter().map(pattern).collect::<Result<Vec<_>, _>>()
        };
        (self.include, self.exclude) = (parse(include)?, parse(exclude)?);
        Ok(self)
    }

    /// Sets [`PullOptions::connections`].
    pub fn with_connections(mut self, connections: NonZeroUsize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets [`PullOptions::bytes_per_second`].
    pub fn with_bytes_per_second(mut self, rate: Option<NonZeroU64>) -> Self {
        self.bytes_per_second = rate;
        self
    }

    /// Sets [`PullOptions::stall`].
    pub fn with_stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Sets [`PullOptions::attempts`].
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets [`PullOptions::peers`].
    pub fn with_peers(mut self, peers: Vec<String>) -> Self {
        self.peers = peers;
        self
    }

    /// Sets [`PullOptions::threads`].
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`PullOptions::progress`].
    pub fn with_progress(mut self, progress: impl Into<Option<ProgressFn>>) -> Self {
        self.progress = progress.into();
        self
    }
}

impl Default for PullOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            connections: DEFAULT_CONNECTIONS,
            bytes_per_second: None,
            stall: Duration::from_secs(30),
            attempts: 6,
            peers: Vec::new(),
            threads: cores,
            progress: None,
        }
    }
}
