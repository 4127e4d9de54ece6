//! Memory of policies with the headroom that each needs to be timely (figures 13 and 14a).
//!
//! In the paper INFless and Tetris both keep the bound on late requests. With the operator's headroom
//! only DTS does so here, so that the others take too little memory for a fair comparison.

use serde::Serialize;

use super::claim::{Basis, Compared, PERCENT, Relation, TetrisClaim, hundredths, less};
use super::grid::Experiment;
use super::run::TetrisRun;
use crate::catalog::Application;
use crate::paper::{MOST_VIOLATIONS_PERCENT, Measure, claims as paper_claims};
use crate::policy::Policy;

/// Policy with the least headroom that keeps the bound on late requests, under stable requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimelyRow {
    /// Application.
    pub application: Application,
    /// Policy.
    pub policy: Policy,
    /// Spare capacity below which instances start, in percent of the load.
    pub headroom_percent: u64,
    /// Mean memory, in bytes.
    pub memory_bytes: u64,
    /// Requests beyond the objective, in hundredths of a percent.
    pub late: i64,
}

/// Returns a row for each application and policy that keeps the bound with any headroom.
pub(super) fn rows(runs: &[TetrisRun]) -> Vec<TimelyRow> {
    let bound = hundredths(MOST_VIOLATIONS_PERCENT.into());
    let mut rows = Vec::new();
    for application in Application::ALL {
        for policy in [Policy::Infless, Policy::Photons, Policy::Dts] {
            let timely = runs.iter().filter(|run| {
                (run.experiment, run.cell) == (Experiment::Timely, application.name())
                    && run.policy == policy
                    && run.late_share() < bound
            });
            let least = timely.min_by_key(|run| run.headroom_percent);
            rows.extend(least.map(|run| TimelyRow {
                application,
                policy,
                headroom_percent: run.headroom_percent,
                memory_bytes: run.memory_bytes.mean,
                late: run.late_share(),
            }));
        }
    }
    rows
}

/// Returns the statements on mean memory under INFless, for timely policies.
pub(super) fn claims(rows: &[TimelyRow]) -> Vec<TetrisClaim> {
    let all = paper_claims();
    let mean_memory = all
        .iter()
        .filter(|claim| (claim.against, claim.measure) == (Policy::Infless, Measure::MeanMemory));
    let claims = mean_memory.map(|claim| {
        let memory = |policy| {
            let mut same = rows
                .iter()
                .filter(|row| (row.application, row.policy) == (claim.application, policy));
            same.next().map(|row| row.memory_bytes)
        };
        let compared = Compared {
            figure: "13",
            name: format!(
                "{}, mean memory, both timely: DTS under {}",
                claim.application.name(),
                claim.against
            ),
            unit: PERCENT,
            paper: hundredths(claim.percent.into()),
            here: memory(claim.against)
                .zip(memory(claim.policy))
                .and_then(|(before, after)| less(before, after)),
            basis: Basis::Simulated,
        };
        compared.is(
            Relation::AtLeast,
            "private memory of the models outweighs the tensors that sharing saves",
        )
    });
    claims.collect()
}
