//! Random choice of functions.

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::function::{RecordedFunction, Requests, spread};
use super::{RecordedTrace, TraceError, TraceFormat, Window};
use crate::Rng;

/// Random numbers of a sample are independent of those of models and requests.
const STREAM: u64 = 1 << 41;

/// Rule by which functions are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SampleRule {
    /// Number of functions. Without it a run takes as many as it has use for, or all if there are fewer.
    pub functions: Option<usize>,
    /// Number of requests in the window that a function needs.
    pub min_requests: u64,
}

/// Functions of a file, chosen at random without replacement, each with the same probability.
///
/// The choice follows from the seed and the functions' names: the order of the file's rows has no influence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceSample {
    path: String,
    format: TraceFormat,
    window: Window,
    /// Number of functions with enough requests, chosen or not.
    eligible: usize,
    #[serde(serialize_with = "names")]
    functions: Vec<Arc<RecordedFunction>>,
}

/// Requests of some functions together in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunLoad {
    /// Level of each second of the run, in a common unit.
    PerSecond(Vec<u128>),
    /// Times of requests in the run, in microseconds and in order.
    Times(Vec<u64>),
}

impl RecordedTrace {
    /// Chooses functions by `rule`, at most `useful` if it has no number.
    ///
    /// # Errors
    ///
    /// Fails if the file has too few functions with enough requests.
    pub fn sample(
        &self,
        rule: SampleRule,
        useful: usize,
        seed: u64,
    ) -> Result<TraceSample, TraceError> {
        let enough =
            |function: &&Arc<RecordedFunction>| function.requests() >= rule.min_requests.max(1);
        let eligible = self.functions.iter().filter(enough);
        let mut by_rank: Vec<_> = eligible
            .map(|function| (rank(seed, &function.name), function))
            .collect();
        let expected = rule.functions.unwrap_or(1);
        if by_rank.len() < expected {
            return Err(TraceError::Functions {
                path: self.path.clone(),
                window: self.window,
                expected,
                min_requests: rule.min_requests.max(1),
                found: by_rank.len(),
            });
        }
        by_rank.sort_unstable_by(|(rank, function), (other_rank, other)| {
            (rank, &function.name).cmp(&(other_rank, &other.name))
        });
        let chosen = by_rank.iter().take(rule.functions.unwrap_or(useful));
        Ok(TraceSample {
            path: printable(&self.path),
            format: self.format,
            window: self.window,
            eligible: by_rank.len(),
            functions: chosen.map(|(_, function)| Arc::clone(function)).collect(),
        })
    }
}

/// Returns a random number for a function, which no other function and no order of rows changes.
fn rank(seed: u64, name: &str) -> u64 {
    // FNV-1a, 64 bits; names are hashes already.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let salt = Rng::new(seed, STREAM).next_u64();
    Rng::new(hash ^ salt, STREAM).next_u64()
}

/// Returns a path as text without control characters.
pub(super) fn printable(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// A function in JSON.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    requests: u64,
}

fn names<S: Serializer>(
    functions: &[Arc<RecordedFunction>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(functions.iter().map(|function| Named {
        name: &function.name,
        requests: function.requests(),
    }))
}

impl TraceSample {
    /// Format of the file.
    pub const fn format(&self) -> TraceFormat {
        self.format
    }

    /// Part of the file.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The functions, in random order.
    pub fn functions(&self) -> &[Arc<RecordedFunction>] {
        &self.functions
    }

    /// Number of requests of all chosen functions.
    pub fn requests(&self) -> u64 {
        self.functions
            .iter()
            .map(|function| function.requests())
            .sum()
    }

    /// Returns the functions of the `slot`th of `slots` users, to whom they are dealt in turn. With fewer functions than
    /// users, users share them.
    pub fn dealt(&self, slot: usize, slots: usize) -> impl Iterator<Item = &RecordedFunction> {
        let step = slots.max(1);
        let first = if slot < self.functions.len() {
            slot
        } else {
            slot.checked_rem(self.functions.len()).unwrap_or(0)
        };
        self.functions
            .iter()
            .skip(first)
            .step_by(step)
            .map(|function| &**function)
    }

    /// Returns the requests of that user in a run of `run_s` seconds.
    pub fn load(&self, slot: usize, slots: usize, run_s: u64) -> RunLoad {
        if self.format == TraceFormat::AzureFunctions2019 {
            let mut levels = vec![0; run_s as usize];
            for function in self.dealt(slot, slots) {
                if let Requests::PerMinute(counts) = &function.requests {
                    for minute in counts {
                        spread(*minute, self.window, &mut levels);
                    }
                }
            }
            return RunLoad::PerSecond(levels);
        }
        let mut times = Vec::new();
        for function in self.dealt(slot, slots) {
            if let Requests::Timed(requests) = &function.requests {
                let in_run = requests
                    .iter()
                    .map(|request| self.window.run_us(request.at_us, run_s));
                times.extend(in_run);
            }
        }
        times.sort_unstable();
        RunLoad::Times(times)
    }

    /// Describes the sample in one sentence.
    pub fn about(&self) -> String {
        format!(
            "{} of {} functions of {} ({}), {}, {} requests",
            self.functions.len(),
            self.eligible,
            self.path,
            self.format,
            self.window,
            self.requests()
        )
    }
}
