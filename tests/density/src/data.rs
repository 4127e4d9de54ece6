//! Figures of a run, in the form of the JSON file.
//!
//! Sizes are in bytes, times in nanoseconds unless the name states another unit.

use serde::{Deserialize, Serialize};

use crate::methods::{Method, StoreUse};
use crate::system::ksm::MergeReport;
use crate::system::machine::Machine;
use crate::system::memory::ProcessMemory;
use crate::workload::{ModelFile, SharedPart};
use tetris_test_support::stats::Summary;

/// Name and version of the JSON file's format.
pub const SCHEMA: &str = "tetris-density/2";

/// Results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The command line.
    pub command: String,
    /// Time of the run's start, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
    /// Duration of the run, in seconds.
    pub duration_s: f64,
    /// Description of the machine.
    pub machine: Machine,
    /// Seed of the synthetic weights.
    pub seed: u64,
    /// True if this was a smoke run, whose figures mean nothing.
    pub quick: bool,
    /// Location of the tensor stores; empty if no method used one.
    pub store_place: String,
    /// The groups.
    pub workloads: Vec<WorkloadReport>,
    /// Ratios beside their limits.
    pub bars: Vec<Bar>,
    /// Figures of the Tetris paper beside ours.
    pub papers: Vec<PaperFigure>,
    /// Methods of measurement, and remarks on the figures.
    pub notes: Vec<String>,
}

/// One group of instances under all methods.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Name of the group.
    pub name: String,
    /// Its description in one sentence.
    pub description: String,
    /// Its files.
    pub models: Vec<ModelFile>,
    /// Indexes into `models` for each instance: instance `i` uses entry `i` modulo the number of
    /// entries.
    pub patterns: Vec<Vec<usize>>,
    /// Length of the distinct tensors in bytes, if known.
    pub distinct_bytes: Option<u64>,
    /// The part of each variant that the base has too; empty but for a family of the user's.
    pub sharing: Vec<SharedPart>,
    /// Memory of a worker beside the weights in bytes, measured with a model of one page.
    pub idle_worker_bytes: u64,
    /// Results of the methods.
    pub methods: Vec<MethodReport>,
    /// Passes of one instance per method, all alive, by turns.
    pub inference: Vec<InferenceSamples>,
    /// Numbers of instances that fit under a limit.
    pub density: Option<DensityReport>,
    /// True if all checksums agree; the run fails otherwise.
    pub checksums_agree: bool,
}

/// Outcome of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured,
    /// It cannot be measured here.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// It failed.
    Failed {
        /// The error.
        reason: String,
    },
}

/// One method on one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MethodReport {
    /// The method.
    pub method: Method,
    /// Its description.
    pub description: String,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Memory of the group at each size.
    pub group: Vec<GroupPoint>,
    /// The reason larger numbers of instances were omitted, if any were.
    pub limited: Option<String>,
    /// Additional physical memory of the group per instance after the first, in bytes.
    pub marginal_bytes: Option<f64>,
    /// Memory of an interpreter beside the weights in bytes, for methods with interpreters: the
    /// mean over the largest group after loading a model of one page.
    #[serde(default)]
    pub interpreter_bytes: Option<u64>,
    /// All starts, in order.
    pub starts: Vec<Start>,
    /// Summary of the starts with files that an earlier instance had loaded.
    pub repeated: Option<StartSummary>,
    /// Summary of the starts with files that no earlier instance had loaded.
    pub first: Option<StartSummary>,
    /// Passes of the first and the last instance while the whole group was alive, in nanoseconds.
    pub pass_ns: Vec<u64>,
    /// Results of merging, for the method with merging.
    pub merging: Vec<MergeReport>,
}

/// The group at one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GroupPoint {
    /// Number of live instances.
    pub instances: usize,
    /// Length of the addressable tensors summed over the instances, in bytes.
    pub logical_bytes: u64,
    /// Physical memory in bytes: PSS + page tables + unmapped pages of the tensor store.
    pub group_bytes: u64,
    /// Sum over the processes.
    pub processes: ProcessMemory,
    /// Memory of the tensor store in bytes, mapped or not.
    pub store_bytes: u64,
    /// Decrease of the available memory since before the first instance, in bytes; clean file pages
    /// count as available.
    pub available_drop_bytes: i64,
}

impl GroupPoint {
    /// Share of the tensors mapped by 2 MiB pages, in percent.
    pub fn large_pages_percent(&self) -> f64 {
        100.0 * self.processes.large_pages as f64 / self.logical_bytes.max(1) as f64
    }
}

/// One start of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// Its number in the group, from 0.
    pub instance: usize,
    /// True if an earlier instance of the group had loaded the same model.
    pub repeat: bool,
    /// Time until all tensors were addressable.
    pub attach_ns: u64,
    /// Time of one read per page, after attaching.
    pub touch_ns: u64,
    /// Time from before attaching until the first pass was done.
    pub first_result_ns: u64,
    /// Checksum of the first pass.
    pub checksum: String,
    /// Use of the tensor store.
    pub store: StoreUse,
}

/// Summary of starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartSummary {
    /// Time until all tensors were addressable.
    pub attach_ns: Summary,
    /// Time of one read per page.
    pub touch_ns: Summary,
    /// Sum of both times.
    pub attach_and_touch_ns: Summary,
    /// Time until the first pass was done.
    pub first_result_ns: Summary,
}

/// Passes of one method in the comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InferenceSamples {
    /// The method.
    pub method: Method,
    /// Duration of each pass, in order.
    pub pass_ns: Vec<u64>,
    /// Their summary.
    pub summary: Option<Summary>,
    /// Median of the ratios to `private` in the same round.
    pub ratio_to_private: Option<f64>,
}

/// Instances under a memory limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DensityReport {
    /// The limit in bytes.
    pub budget_bytes: u64,
    /// Number of instances at which counting stops.
    pub cap: usize,
    /// The methods.
    pub methods: Vec<DensityOfMethod>,
}

/// Number of instances of one method that fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DensityOfMethod {
    /// The method.
    pub method: Method,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Number of instances that fit.
    pub fits: usize,
    /// True if more might fit, because the count ended before the memory did.
    pub at_least: bool,
    /// Event that ended the count; `None` if the method was not measured.
    pub ended_by: Option<CountEnd>,
    /// Maximum memory charged to the cgroup, if the kernel records it.
    pub peak_bytes: Option<u64>,
    /// Pass time of the first instance alone.
    pub alone_pass_ns: u64,
}

/// Event that ended a count of instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum CountEnd {
    /// The cap on instances (`--budget-cap`) was reached: more might fit.
    Cap,
    /// No instance was left that has a copy of the files for itself: more might fit.
    Copies,
    /// The kernel killed processes for lack of memory.
    Killed {
        /// Number of kills in the cgroup.
        kills: u64,
    },
    /// A worker could not load its files.
    Refused {
        /// Its reason.
        reason: String,
    },
    /// A worker did not answer within the deadline.
    Deadline,
    /// The instances spent their time rereading pages.
    Thrashing {
        /// Pass time of the slowest instance over that of the first alone, per byte.
        ratio: f64,
    },
}

impl CountEnd {
    /// Returns true if more instances might fit.
    pub fn leaves_room(&self) -> bool {
        match self {
            Self::Cap | Self::Copies => true,
            Self::Killed { .. }
            | Self::Refused { .. }
            | Self::Deadline
            | Self::Thrashing { .. } => false,
        }
    }

    /// Describes the event in a few words, for a plot.
    pub fn short(&self) -> &'static str {
        match self {
            Self::Cap => "cap reached",
            Self::Copies => "no more copies",
            Self::Killed { .. } => "killed",
            Self::Refused { .. } => "refused",
            Self::Deadline => "too slow",
            Self::Thrashing { .. } => "thrashing",
        }
    }
}

impl std::fmt::Display for CountEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cap => f.write_str("the cap on instances (--budget-cap)"),
            Self::Copies => f.write_str(
                "no more copies of the files: the memory was not full (a larger --instances makes more)",
            ),
            Self::Killed { kills } => write!(f, "killed for lack of memory ({kills} kills)"),
            Self::Refused { reason } => write!(f, "refused: {reason}"),
            Self::Deadline => f.write_str("no answer within the deadline"),
            Self::Thrashing { ratio } => {
                write!(f, "thrashing: passes take {ratio:.0} times as long")
            }
        }
    }
}

/// A measured ratio beside its limit. Never asserted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// The compared quantities.
    pub name: String,
    /// Formula of the ratio.
    pub formula: String,
    /// Upper limit of the ratio.
    pub limit: f64,
    /// The measured ratio; `None` if one of the methods is missing.
    pub measured: Option<f64>,
    /// True if the ratio is within the limit.
    pub met: Option<bool>,
}

/// A figure of the Tetris paper beside ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PaperFigure {
    /// Its place in the paper.
    pub place: String,
    /// The quantity.
    pub what: String,
    /// The paper's value.
    pub paper: String,
    /// Our value with its conditions; empty if that part did not run.
    pub ours: String,
}
