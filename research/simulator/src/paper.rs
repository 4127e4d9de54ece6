//! Results of the paper's evaluation (Tetris 5.3, figures 12 to 14), as far as the text has
//! numbers.

use serde::Serialize;
use tetris_scaler_core::Rate;
use tetris_simulation::{TraceKind, TraceSource};

use crate::catalog::Application;
use crate::policy::Policy;
use crate::policy_run::PolicyRun;

/// A compared quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Mean memory.
    MeanMemory,
    /// Peak memory.
    PeakMemory,
    /// Mean CPU.
    MeanCpu,
}

impl Measure {
    /// Name of the quantity.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MeanMemory => "mean memory",
            Self::PeakMemory => "peak memory",
            Self::MeanCpu => "mean CPU",
        }
    }

    fn of(self, run: &PolicyRun) -> u64 {
        match self {
            Self::MeanMemory => run.outcome.memory_bytes.mean,
            Self::PeakMemory => run.outcome.memory_bytes.peak,
            Self::MeanCpu => run.outcome.cpu_millis.mean,
        }
    }
}

/// A number of the paper: the reduction by `policy` compared to `against`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Policy that takes less.
    pub policy: Policy,
    /// Policy that it is compared to.
    pub against: Policy,
    /// Compared quantity.
    pub measure: Measure,
    /// Application.
    pub application: Application,
    /// Kind of the trace; all kinds if `None`.
    pub kind: Option<TraceKind>,
    /// Reduction, in percent.
    pub percent: u32,
}

/// A claim, and the simulated value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Claim of the paper.
    pub claim: Claim,
    /// Simulated reduction, in thousandths; negative for an increase. `None` if the runs are
    /// missing.
    pub simulated_permille: Option<i64>,
}

const PERCENTS: [(Policy, Measure, [u32; 4]); 4] = [
    (Policy::Infless, Measure::MeanMemory, [86, 64, 69, 65]),
    (Policy::Infless, Measure::PeakMemory, [87, 68, 71, 65]),
    (Policy::Photons, Measure::MeanMemory, [68, 33, 37, 21]),
    (Policy::Photons, Measure::PeakMemory, [67, 43, 39, 22]),
];

/// Returns all numbers of figures 12 and 13 that the text gives. The text does not say that those
/// against Photons are of stable requests; they follow numbers that are.
pub fn claims() -> Vec<Claim> {
    let memory = PERCENTS.iter().flat_map(|&(against, measure, percents)| {
        Application::ALL
            .into_iter()
            .zip(percents)
            .map(move |(application, percent)| Claim {
                policy: Policy::Dts,
                against,
                measure,
                application,
                kind: Some(TraceKind::Stable),
                percent,
            })
    });
    let cpu = [(Policy::DtsRo, 42), (Policy::Infless, 39)].map(|(policy, percent)| Claim {
        policy,
        against: Policy::Photons,
        measure: Measure::MeanCpu,
        application: Application::Ss,
        kind: None,
        percent,
    });
    memory.chain(cpu).collect()
}

/// Upper bound of the violations of DTS and INFless, in percent (figure 14a).
pub const MOST_VIOLATIONS_PERCENT: u32 = 4;

/// Memory that DTS saves per 100 requests per second, in tenths of a gigabyte, against INFless
/// and Photons (figure 14b).
pub const SAVED_TENTHS_GB: [(Policy, u64); 2] = [(Policy::Infless, 615), (Policy::Photons, 202)];

/// Returns all claims with the values of `runs`.
pub fn check(runs: &[PolicyRun]) -> Vec<Checked> {
    let checked = |claim: Claim| Checked {
        claim,
        simulated_permille: claim.simulated_permille(runs),
    };
    claims().into_iter().map(checked).collect()
}

impl Claim {
    /// Returns true for requests that the claim is about. The paper has none of a file.
    fn is_of(&self, source: TraceSource) -> bool {
        let TraceSource::Generated(generated) = source else {
            return false;
        };
        self.kind.is_none_or(|kind| kind == generated)
    }

    fn simulated_permille(&self, runs: &[PolicyRun]) -> Option<i64> {
        let sum = |policy: Policy| -> u64 {
            let of_cell = runs.iter().filter(|run| {
                run.cell == self.application.name() && run.policy == policy && self.is_of(run.kind)
            });
            of_cell.map(|run| self.measure.of(run)).sum()
        };
        less_permille(sum(self.policy), sum(self.against))
    }
}

/// Returns the reduction from `other` to `one`, in thousandths.
fn less_permille(one: u64, other: u64) -> Option<i64> {
    let permille = (u128::from(one) * 1_000).checked_div(u128::from(other))?;
    i64::try_from(permille)
        .ok()
        .map(|permille| 1_000 - permille)
}

/// Memory that DTS saves against another policy under stable requests, per 100 requests/s
/// (figure 14b).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Saving {
    /// Policy that DTS is compared to.
    pub against: Policy,
    /// Application that ran alone; all four in turn if `None`.
    pub application: Option<Application>,
    /// Saved memory, in bytes per 100 requests/s; negative if DTS takes more.
    pub bytes_per_100_rps: i64,
}

/// Returns the savings against the policies of figure 14b, for each application and for all of them.
/// Missing runs are left out. `load` returns the mean load of an application.
pub fn savings(runs: &[PolicyRun], load: impl Fn(Application) -> Rate) -> Vec<Saving> {
    let mut all = Vec::new();
    for (against, _) in SAVED_TENTHS_GB {
        let pairs = Application::ALL
            .map(|pplication| Some((saved(runs, against, pplication)?, load(pplication))));
        let saving = |application, parts: &[(i128, Rate)]| {
            let bytes: i128 = parts.iter().map(|(bytes, _)| bytes).sum();
            let load: Rate = parts.iter().map(|&(_, load)| load).sum();
            let per_100 = (bytes * 100_000_000).checked_div(i128::from(load.micro_rps()))?;
            Some(Saving {
                against,
                application,
                bytes_per_100_rps: i64::try_from(per_100).ok()?,
            })
        };
        for (application, part) in Application::ALL.into_iter().zip(pairs) {
            all.extend(part.and_then(|part| saving(Some(application), &[part])));
        }
        let parts: Option<Vec<_>> = pairs.into_iter().collect();
        all.extend(parts.and_then(|parts| saving(None, &parts)));
    }
    all
}

/// Returns the memory that DTS saves for one application, in bytes.
fn saved(runs: &[PolicyRun], against: Policy, application: Application) -> Option<i128> {
    let mean = |policy: Policy| {
        let mut of_cell = runs.iter().filter(|run| {
            run.cell == application.name()
                && run.kind == TraceKind::Stable.into()
                && run.policy == policy
        });
        let bytes = of_cell.next()?.outcome.memory_bytes.mean;
        Some(i128::from(bytes))
    };
    Some(mean(against)? - mean(Policy::Dts)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{RunOutcome, Samples};

    fn run(policy: Policy, application: Application, mean: u64) -> PolicyRun {
        let memory_bytes = Samples {
            mean,
            median: 0,
            peak: 2 * mean,
        };
        PolicyRun {
            cell: application.name(),
            kind: TraceKind::Stable.into(),
            policy,
            outcome: RunOutcome {
                memory_bytes,
                ..RunOutcome::default()
            },
        }
    }

    #[test]
    fn claims_are_put_beside_what_was_run() {
        let runs = [
            run(Policy::Dts, Application::Svt, 200),
            run(Policy::Infless, Application::Svt, 1_000),
        ];
        let checked = check(&runs);
        assert_eq!(checked.len(), 18);
        let svt = checked[0];
        assert_eq!((svt.claim.percent, svt.simulated_permille), (86, Some(800)));
        assert_eq!(checked[1].simulated_permille, None);
    }

    #[test]
    fn savings_are_per_hundred_requests_of_one_application_and_of_all() {
        let mut runs = Vec::new();
        for application in Application::ALL {
            runs.push(run(Policy::Dts, application, 100));
            runs.push(run(Policy::Photons, application, 700));
        }
        let all = savings(&runs, |entry| match entry {
            Application::Ss => Rate::from_rps(300),
            _ => Rate::from_rps(100),
        });
        let bytes: Vec<i64> = all.iter().map(|saving| saving.bytes_per_100_rps).collect();
        assert_eq!(bytes, [600, 600, 200, 600, 400]);
        assert_eq!(all[4].application, None);
        assert!(all.iter().all(|saving| saving.against == Policy::Photons));
    }
}
