//! Sharing-aware plans beside DTS with placement: where they are worse, and why.

use serde::Serialize;
use tetris_simulation::{TraceKind, TraceSource};

use crate::column::Column;
use crate::policy::Policy;
use crate::policy_run::PolicyRun;

/// A column in which sharing-aware is worse than DTS with placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worse {
    /// Name of the application, or "all".
    pub cell: &'static str,
    /// Kind of the trace, or the format of its file.
    pub kind: TraceSource,
    /// Column.
    pub column: Column,
    /// Value of sharing-aware.
    pub own: u64,
    /// Value of DTS.
    pub dts: u64,
}

/// Returns all columns of `runs` in which sharing-aware is worse than DTS by more than chance.
pub fn worse(runs: &[PolicyRun]) -> Vec<Worse> {
    let mut all = Vec::new();
    for own in runs.iter().filter(|run| run.policy == Policy::SharingAware) {
        let same = |run: &&PolicyRun| {
            (run.cell, run.kind, run.policy) == (own.cell, own.kind, Policy::Dts)
        };
        let Some(dts) = runs.iter().find(same) else {
            continue;
        };
        for column in Column::ALL {
            let (value, other) = (column.of(&own.outcome), column.of(&dts.outcome));
            if column.is_worse(value, other) {
                all.push(Worse {
                    cell: own.cell,
                    kind: own.kind,
                    column,
                    own: value,
                    dts: other,
                });
            }
        }
    }
    all
}

/// An exception from the rule that sharing-aware is not worse than DTS with placement in any column
/// of a committed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Name of the application, or "all".
    pub cell: &'static str,
    /// Kind of the trace.
    pub kind: TraceKind,
    /// Column.
    pub column: Column,
    /// Largest accepted value, in percent of that of DTS.
    pub most_percent: u64,
    /// Cause.
    pub why: Why,
}

/// A cause of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// DTS has spare capacity that no one planned.
    CloseFit,
    /// A function grew in several steps.
    Pieces,
}

impl Why {
    /// All causes.
    pub const ALL: [Self; 2] = [Self::CloseFit, Self::Pieces];

    /// Name of the cause.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CloseFit => "close fit",
            Self::Pieces => "pieces",
        }
    }

    /// The cause in a sentence, as the page has it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::CloseFit => {
                "a plan starts what the load needs with its headroom, while the large instances of DTS \
                 have spare capacity beyond it, which serves the next rise in time"
            }
            Self::Pieces => {
                "where tensors are on a node already, a plan adds the instance with the least private \
                 memory for the missing rate, so a load that rises for minutes leaves more and smaller \
                 instances than DTS has, until a consolidation after ten steady minutes"
            }
        }
    }
}

/// Returns an exception of late requests by [`Why::CloseFit`], of others by [`Why::Pieces`].
const fn except(
    cell: &'static str,
    kind: TraceKind,
    column: Column,
    most_percent: u64,
) -> Exception {
    let why = match column {
        Column::Late => Why::CloseFit,
        _ => Why::Pieces,
    };
    Exception {
        cell,
        kind,
        column,
        most_percent,
        why,
    }
}

/// All exceptions, which the page and the tests share.
pub const EXCEPTIONS: &[Exception] = &[
    except("SVT", TraceKind::Periodic, Column::MeanMemory, 110),
    except("SVT", TraceKind::Periodic, Column::PeakMemory, 120),
    except("SVT", TraceKind::Periodic, Column::MeanCpu, 125),
    except("SVT", TraceKind::Periodic, Column::Late, 500),
    except("SVT", TraceKind::Bursty, Column::MeanMemory, 110),
    except("SVT", TraceKind::Bursty, Column::PeakMemory, 115),
    except("SVT", TraceKind::Bursty, Column::MeanCpu, 120),
    except("SVT", TraceKind::Bursty, Column::Late, 125),
    except("QA-Audio", TraceKind::Periodic, Column::MeanMemory, 105),
    except("QA-Audio", TraceKind::Periodic, Column::PeakMemory, 110),
    except("QA-Audio", TraceKind::Periodic, Column::MeanCpu, 118),
    except("QA-Audio", TraceKind::Bursty, Column::MeanMemory, 105),
    except("QA-Audio", TraceKind::Bursty, Column::PeakMemory, 110),
    except("QA-Audio", TraceKind::Bursty, Column::MeanCpu, 118),
    except("SS", TraceKind::Periodic, Column::Late, 130),
    except("SS", TraceKind::Bursty, Column::PeakMemory, 105),
    except("SS", TraceKind::Bursty, Column::MeanCpu, 110),
    except("SS", TraceKind::Bursty, Column::Late, 145),
    except("QA-Text", TraceKind::Periodic, Column::MeanMemory, 120),
    except("QA-Text", TraceKind::Periodic, Column::PeakMemory, 110),
    except("QA-Text", TraceKind::Periodic, Column::MeanCpu, 110),
    except("QA-Text", TraceKind::Periodic, Column::Late, 1000),
    except("QA-Text", TraceKind::Bursty, Column::MeanMemory, 140),
    except("QA-Text", TraceKind::Bursty, Column::PeakMemory, 145),
    except("QA-Text", TraceKind::Bursty, Column::MeanCpu, 120),
    except("QA-Text", TraceKind::Bursty, Column::Late, 140),
    except("all", TraceKind::Periodic, Column::MeanMemory, 105),
    except("all", TraceKind::Periodic, Column::PeakMemory, 110),
    except("all", TraceKind::Periodic, Column::MeanCpu, 115),
    except("all", TraceKind::Periodic, Column::Late, 175),
    except("all", TraceKind::Bursty, Column::MeanCpu, 118),
    except("all", TraceKind::Bursty, Column::Late, 105),
];
