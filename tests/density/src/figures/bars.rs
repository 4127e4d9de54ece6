//! Bars: upper limits of the store's ratios, measured side by side in this run.

use super::lookup::{attach_and_touch, largest_common, point, workload};
use crate::data::{Bar, WorkloadReport};
use crate::methods::Method;
use crate::units::{self, MIB};

/// Length of the replicas' model from which the bars apply, in bytes: the fixed cost of a load, some
/// hundred microseconds, hides the ratios of a smaller one.
const SMALLEST: u64 = 64 * MIB;

/// The reason the bars do not apply to a run with synthetic models; `None` if they do, or if no
/// replicas were measured.
pub fn unavailable(workloads: &[WorkloadReport]) -> Option<String> {
    let replicas = workload(workloads, "replicas")?;
    let bytes = model_bytes(replicas);
    (bytes < SMALLEST).then(|| {
        format!(
            "The bars of this project are for models of at least {}; the memory of this machine \
             allowed one of {}.",
            units::bytes(SMALLEST),
            units::bytes(bytes)
        )
    })
}

fn model_bytes(replicas: &WorkloadReport) -> u64 {
    replicas.models.iter().map(|model| model.tensor_bytes).sum()
}

/// Computes the bars from the group of replicas. A bar has no value if one of its methods did not
/// run.
pub fn of(workloads: &[WorkloadReport]) -> Vec<Bar> {
    let Some(replicas) = workload(workloads, "replicas") else {
        return Vec::new();
    };
    if unavailable(workloads).is_some() {
        return Vec::new();
    }
    let start_ratio = |to: Method| {
        Some(attach_and_touch(replicas, Method::Tetris)? / attach_and_touch(replicas, to)?)
    };
    let memory = |method| memory_ratio(replicas, method);
    vec![
        bar(
            "attach + touch, against reading into private memory",
            "tetris / private",
            0.03,
            start_ratio(Method::Private),
        ),
        bar(
            "attach + touch, against a mapped file of one's own",
            "tetris / own-file",
            0.3,
            start_ratio(Method::OwnFile),
        ),
        bar(
            "attach + touch, against the page cache at its best",
            "tetris / page-cache",
            1.1,
            start_ratio(Method::PageCache),
        ),
        bar(
            "memory, own file each, known by its sidecar",
            MEMORY_FORMULA,
            1.02,
            memory(Method::TetrisSidecar),
        ),
        bar(
            "memory, own file each, hashed by each",
            MEMORY_FORMULA,
            1.02,
            memory(Method::TetrisOwnFile),
        ),
        bar(
            "start through the daemon, own file each, against publishing directly",
            "tetris-brokered / tetris-own-file",
            1.15,
            broker_ratio(replicas),
        ),
        bar(
            "memory, own file each, published by the daemon, which counts",
            MEMORY_FORMULA,
            1.02,
            memory(Method::TetrisBrokered),
        ),
        bar(
            "inference on store weights",
            "tetris / private, median of rounds",
            1.0,
            inference_ratio(replicas),
        ),
    ]
}

/// Ratio of the median attach and touch times for a new file of a known model: brokered over
/// direct.
fn broker_ratio(replicas: &WorkloadReport) -> Option<f64> {
    let brokered = attach_and_touch(replicas, Method::TetrisBrokered)?;
    Some(brokered / attach_and_touch(replicas, Method::TetrisOwnFile)?)
}

const MEMORY_FORMULA: &str = "(group - the processes themselves) / one copy";

fn bar(name: &str, formula: &str, limit: f64, measured: Option<f64>) -> Bar {
    Bar {
        name: name.to_owned(),
        formula: formula.to_owned(),
        limit,
        measured,
        met: measured.map(|measured| measured <= limit),
    }
}

/// Memory of the largest group, without that of the processes themselves, over one copy of the
/// weights.
fn memory_ratio(replicas: &WorkloadReport, method: Method) -> Option<f64> {
    let instances = largest_common(replicas, &[method])?;
    let group = point(replicas, method, instances)?.group_bytes as f64;
    let processes = (instances as u64 * replicas.idle_worker_bytes) as f64;
    Some((group - processes) / model_bytes(replicas) as f64)
}

fn inference_ratio(replicas: &WorkloadReport) -> Option<f64> {
    replicas
        .inference
        .iter()
        .find(|samples| samples.method == Method::Tetris)?
        .ratio_to_private
}
