//! Lines of JSON between the programs here and the tests that start them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A line that a program prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// A round of an attack is over. The attack stays in force until the next one.
    Round {
        /// The attack's name.
        attack: String,
        /// Number of the round, from 1 on.
        round: u64,
        /// Counts of each result.
        counts: BTreeMap<String, u64>,
    },
    /// A result that must never be, such as wrong bytes.
    Wrong {
        /// The attack's name, or `victim`.
        attack: String,
        /// The result.
        what: String,
    },
    /// The program cannot do this here, and leaves it out.
    Skipped {
        /// The attack's name.
        attack: String,
        /// The reason.
        reason: String,
    },
    /// A load of the victim. A `wrong` line follows if its bytes are not those of the file.
    Load {
        /// Number of the load, from 1 on.
        load: u64,
        /// The way in which the file was recognized.
        recognized: String,
        /// Number of bytes in private memory.
        private: u64,
        /// The reason for private bytes.
        reason: Option<String>,
        /// Duration of the load in microseconds.
        took_us: u64,
    },
}

impl Line {
    /// Prints the line.
    ///
    /// # Errors
    /// When no one reads it.
    pub fn say(&self) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", serde_json::to_string(self)?)?;
        stdout.flush()
    }
}

/// Counts of results by their names.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Counts a result.
    pub fn count(&mut self, result: impl Into<String>) {
        *self.0.entry(result.into()).or_default() += 1;
    }

    /// Adds to the count of a result.
    pub fn add(&mut self, result: impl Into<String>, number: u64) {
        *self.0.entry(result.into()).or_default() += number;
    }

    /// The counts, which begin anew.
    pub fn take(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.0)
    }
}

/// The end of the program: of its standard input, or after a time.
#[derive(Debug, Clone)]
pub struct End {
    closed: Arc<AtomicBool>,
    at: Option<Instant>,
}

impl End {
    /// Ends after `limit`, or with the standard input where there is no limit.
    pub fn new(limit: Option<Duration>) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        if limit.is_none() {
            let closed = Arc::clone(&closed);
            std::thread::spawn(move || {
                // An error ends it as well.
                let _ended = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
                closed.store(true, Ordering::Relaxed);
            });
        }
        Self {
            closed,
            at: limit.and_then(|limit| Instant::now().checked_add(limit)),
        }
    }

    /// Returns true if the program should end.
    pub fn has_come(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Waits for `pause`, or for the end. Returns true if the end has come.
    pub fn wait(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while !self.has_come() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20).min(pause));
        }
        self.has_come()
    }
}
