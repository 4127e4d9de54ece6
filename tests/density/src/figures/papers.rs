//! Figures of the Tetris paper (USENIX ATC 2022, section 5.2) beside the same quantities of this
//! run.
//!
//! The paper measured TensorFlow Serving processes with much private memory (Vgg19: 95 MB
//! beside 549 MB of tensors) on Xeon servers with Linux 4.15. Our processes hold little but the
//! tensors, so our ratios show the effect of the tensors alone.

use super::lookup::{largest_common, method, point, workload};
use crate::data::{PaperFigure, WorkloadReport};
use crate::methods::Method;
use crate::units::{bytes, nanoseconds};

/// Figures with a counterpart in this run, in the order of the paper.
pub fn of(workloads: &[WorkloadReport]) -> Vec<PaperFigure> {
    let replicas = workload(workloads, "replicas");
    let heads = workload(workloads, "heads");
    let mixed = workload(workloads, "mixed");
    let reduction_at =
        |group: Option<&WorkloadReport>, size| group.and_then(|group| reduction(group, size));
    vec![
        figure(
            "Figure 9(a)",
            "memory saved by replicas of one model, 2 instances",
            "28 % on average (Lstm 4.4 %)",
            reduction_at(replicas, Some(2)),
        ),
        figure(
            "Figure 9(a)",
            "memory saved by replicas of one model, many instances",
            "32 instances: Vgg19 82 %, LaBSE 91 %, Use 93 %",
            reduction_at(replicas, None),
        ),
        figure(
            "Figure 9(b)",
            "time to start saved, model known to the store",
            "up to 91.6 %; Bit-M 7.9 s from the page cache to 2.8 s; SSD 17.3 %, Textcnn69 32.8 %",
            replicas.and_then(|group| start_saved(group, true)),
        ),
        figure(
            "Figure 10",
            "density under a memory limit, against private copies",
            "LaBSE 20 x, Use 30 x; Bit-M 14 to 74 instances in 64 GB",
            replicas.and_then(density_gain),
        ),
        figure(
            "Figure 11(a)",
            "memory saved by head-retrained variants",
            "18.8 to 36.3 % further; Vgg19 13.8 % at 32 variants",
            reduction_at(heads, None),
        ),
        figure(
            "Figure 11(b)",
            "time to start saved, model new but its family known",
            "46.9 % on average; Vgg19 12.3 %",
            heads.and_then(|group| start_saved(group, false)),
        ),
        figure(
            "Figure 13",
            "memory saved by mixed applications",
            "mean footprint 64 to 86 % below INFless, under load",
            reduction_at(mixed, None),
        ),
    ]
}

fn figure(place: &str, what: &str, paper: &str, ours: Option<String>) -> PaperFigure {
    PaperFigure {
        place: place.to_owned(),
        what: what.to_owned(),
        paper: paper.to_owned(),
        ours: ours.unwrap_or_default(),
    }
}

/// Computes `1 - tetris / private` of the group, at a size or at the largest common one.
fn reduction(group: &WorkloadReport, size: Option<usize>) -> Option<String> {
    let size = match size {
        Some(size) => size,
        None => largest_common(group, &[Method::Private, Method::Tetris])?,
    };
    let tetris = point(group, Method::Tetris, size)?.group_bytes as f64;
    let private = point(group, Method::Private, size)?.group_bytes as f64;
    Some(format!(
        "{:.1} % at {size} instances",
        100.0 * (1.0 - tetris / private)
    ))
}

/// Computes `1 - tetris / private` of the median time to the first result, and the times of the
/// mapped files.
///
/// The paper's native system copies out of the page cache into private memory, like `private`.
///
/// For files new to the store, the very first start does not count: its family is not known then.
fn start_saved(group: &WorkloadReport, repeat: bool) -> Option<String> {
    let time = |of: Method| {
        let starts = method(group, of)?
            .starts
            .iter()
            .filter(|start| start.instance > 0);
        let times: Vec<f64> = starts
            .filter(|start| start.repeat == repeat)
            .map(|start| start.first_result_ns as f64)
            .collect();
        tetris_test_support::stats::median(&times)
    };
    let (tetris, private) = (time(Method::Tetris)?, time(Method::Private)?);
    let other = |of: Method| Some(format!(", {} {}", of.name(), nanoseconds(time(of)?)));
    Some(format!(
        "{:.1} % of the time to first result (tetris {}, private {}{}{})",
        100.0 * (1.0 - tetris / private),
        nanoseconds(tetris),
        nanoseconds(private),
        other(Method::PageCache).unwrap_or_default(),
        other(Method::OwnFile).unwrap_or_default(),
    ))
}

fn density_gain(group: &WorkloadReport) -> Option<String> {
    let density = group.density.as_ref()?;
    let of = |method| {
        density
            .methods
            .iter()
            .find(|entry| entry.method == method && entry.fits > 0)
    };
    let (tetris, private) = (of(Method::Tetris)?, of(Method::Private)?);
    let more = if tetris.at_least { "at least " } else { "" };
    Some(format!(
        "{more}{:.1} x ({} to {more}{} instances in {})",
        tetris.fits as f64 / private.fits as f64,
        private.fits,
        tetris.fits,
        bytes(density.budget_bytes),
    ))
}
