//! The figures of a run, as they stand in the JSON file.
//!
//! Sizes are in bytes, times in nanoseconds unless the name says otherwise.

use serde::{Deserialize, Serialize};

use crate::methods::{Method, StoreUse};
use crate::stats::Summary;
use crate::system::ksm::MergeReport;
use crate::system::machine::Machine;
use crate::system::memory::ProcessMemory;
use crate::workload::ModelFile;

/// Name and version of the layout of the JSON file.
pub const SCHEMA: &str = "tetris-density/1";

/// Everything a run found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The command line that was used.
    pub command: String,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
    /// How long it took, in seconds.
    pub duration_s: f64,
    /// What it ran on.
    pub machine: Machine,
    /// Seed of the synthetic weights.
    pub seed: u64,
    /// Whether this was a smoke run, whose figures say nothing.
    pub quick: bool,
    /// Where a tensor store lay; empty when none was used.
    pub store_place: String,
    /// The groups.
    pub workloads: Vec<WorkloadReport>,
    /// Ratios beside the values they should reach.
    pub bars: Vec<Bar>,
    /// Figures of the Tetris paper beside ours.
    pub papers: Vec<PaperFigure>,
    /// How the figures were taken, and what to keep in mind.
    pub notes: Vec<String>,
}

/// One group of instances under all methods.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Name of the group.
    pub name: String,
    /// One sentence about it.
    pub description: String,
    /// Its files.
    pub models: Vec<ModelFile>,
    /// Indexes into `models` that instance `i` loads: entry `i` modulo their number.
    pub patterns: Vec<Vec<usize>>,
    /// Bytes of the different tensors, where they are known.
    pub distinct_bytes: Option<u64>,
    /// What a worker takes beside the weights: measured with a model of one page.
    pub idle_worker_bytes: u64,
    /// The methods.
    pub methods: Vec<MethodReport>,
    /// Passes of one instance per method, all alive at once and asked by turns.
    pub inference: Vec<InferenceSamples>,
    /// Instances that fit under a limit.
    pub density: Option<DensityReport>,
    /// Whether all methods computed the same; the run fails otherwise.
    pub checksums_agree: bool,
}

/// How a method went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured,
    /// It cannot be measured here.
    Skipped {
        /// Why.
        reason: String,
    },
    /// Something went wrong.
    Failed {
        /// What.
        reason: String,
    },
}

/// One method on one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MethodReport {
    /// Which.
    pub method: Method,
    /// What it does.
    pub description: String,
    /// How it went.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Memory of the group as it grew.
    pub group: Vec<GroupPoint>,
    /// Largest number of instances that was asked for but not started, and why.
    pub limited: Option<String>,
    /// Additional memory per instance after the first: physical bytes of the group.
    pub marginal_bytes: Option<f64>,
    /// What an interpreter takes beside the weights, where the processes are interpreters: mean of the largest
    /// group when it has loaded a model of one page.
    #[serde(default)]
    pub interpreter_bytes: Option<u64>,
    /// Every start, in order.
    pub starts: Vec<Start>,
    /// Starts of files that an earlier instance had loaded, summed up.
    pub repeated: Option<StartSummary>,
    /// Starts of files that nobody had loaded, summed up.
    pub first: Option<StartSummary>,
    /// Passes of the first and the last instance while the whole group was alive.
    pub pass_ns: Vec<u64>,
    /// Merging, for the method that has it.
    pub merging: Vec<MergeReport>,
}

/// The group at one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GroupPoint {
    /// Instances alive.
    pub instances: usize,
    /// Bytes of tensors that they have addressable, each instance for itself.
    pub logical_bytes: u64,
    /// Physical bytes: PSS + page tables + tensor store pages that nobody maps.
    pub group_bytes: u64,
    /// Sum over the processes.
    pub processes: ProcessMemory,
    /// The tensor store, mapped or not.
    pub store_bytes: u64,
    /// By how much less memory is available than before the first instance; clean file pages
    /// count as available.
    pub available_drop_bytes: i64,
}

impl GroupPoint {
    /// Which part of the tensors is mapped by 2 MiB pages, in percent.
    pub fn large_pages_percent(&self) -> f64 {
        100.0 * self.processes.large_pages as f64 / self.logical_bytes.max(1) as f64
    }
}

/// One start of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// Number in the group, from 0.
    pub instance: usize,
    /// Whether an earlier instance of the group had loaded the same model.
    pub repeat: bool,
    /// Until all tensors were addressable.
    pub attach_ns: u64,
    /// One read per page, after attaching.
    pub touch_ns: u64,
    /// From before attaching until the first pass was done.
    pub first_result_ns: u64,
    /// Checksum of the first pass.
    pub checksum: String,
    /// How the tensor store served it.
    pub store: StoreUse,
}

/// Starts summed up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartSummary {
    /// Until all tensors were addressable.
    pub attach_ns: Summary,
    /// One read per page.
    pub touch_ns: Summary,
    /// Both together.
    pub attach_and_touch_ns: Summary,
    /// Until the first pass was done.
    pub first_result_ns: Summary,
}

/// Passes of one method in the comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InferenceSamples {
    /// Which method.
    pub method: Method,
    /// Each pass, in order.
    pub pass_ns: Vec<u64>,
    /// Summed up.
    pub summary: Option<Summary>,
    /// Median of the ratios to `private` in the same round.
    pub ratio_to_private: Option<f64>,
}

/// Instances under a memory limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DensityReport {
    /// The limit.
    pub budget_bytes: u64,
    /// Counting stops here.
    pub cap: usize,
    /// The methods.
    pub methods: Vec<DensityOfMethod>,
}

/// How many instances of one method fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DensityOfMethod {
    /// Which.
    pub method: Method,
    /// How it went.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Instances that fit.
    pub fits: usize,
    /// Whether more might fit, because the cap was reached.
    pub at_least: bool,
    /// What ended the count.
    pub ended_by: String,
    /// The most that was charged to the cgroup, where the kernel records it.
    pub peak_bytes: Option<u64>,
    /// Pass of the first instance while it was alone.
    pub alone_pass_ns: u64,
}

/// A measured ratio beside the value it should reach. Never asserted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// What is compared.
    pub name: String,
    /// How the ratio is formed.
    pub formula: String,
    /// Upper limit of the ratio.
    pub limit: f64,
    /// What was measured; `None` when one of the methods is missing.
    pub measured: Option<f64>,
    /// Whether it was reached.
    pub met: Option<bool>,
}

/// A figure of the Tetris paper beside ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PaperFigure {
    /// Where it stands in the paper.
    pub place: String,
    /// What it is.
    pub what: String,
    /// What the paper says.
    pub paper: String,
    /// What we measured, and under which conditions; empty when that part did not run.
    pub ours: String,
}
