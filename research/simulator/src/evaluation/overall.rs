//! Memory, configurations and late requests of the four applications (figures 13 and 14a).

use serde::Serialize;
use tetris_scaler_core::Rate;
use tetris_simulation::TraceKind;

use super::claim::{Basis, Compared, PERCENT, Relation, TetrisClaim, hundredths, less};
use super::grid::{Experiment, LOADS_OF_SVT};
use super::run::TetrisRun;
use crate::catalog::{Application, Function, ModelAssumptions};
use crate::cluster::{Cluster, WeightRules};
use crate::error::SimulationError;
use crate::paper::{MOST_VIOLATIONS_PERCENT, Measure, claims as paper_claims};
use crate::platform::Platform;
use crate::policy::{Policy, scale_out};
use crate::scenario::Assumptions;

/// Finds the run of an application with alpha 0.
fn find(
    runs: &[TetrisRun],
    experiment: Experiment,
    application: Application,
    kind: TraceKind,
    policy: Policy,
) -> Option<&TetrisRun> {
    runs.iter().find(|run| {
        (run.experiment, run.cell) == (experiment, application.name())
            && (run.kind, run.policy) == (kind, policy)
    })
}

/// Returns the text's statements on figure 13.
pub(super) fn memory_claims(runs: &[TetrisRun]) -> Vec<TetrisClaim> {
    let stable = |application, policy| {
        find(
            runs,
            Experiment::Overall,
            application,
            TraceKind::Stable,
            policy,
        )
    };
    let memory_claims = paper_claims();
    let memory_claims = memory_claims
        .iter()
        .filter(|claim| claim.measure != Measure::MeanCpu);
    let mut claims: Vec<TetrisClaim> = memory_claims
        .map(|claim| {
            let value = |policy| {
                let memory = stable(claim.application, policy)?.memory_bytes;
                Some(match claim.measure {
                    Measure::PeakMemory => memory.peak,
                    _ => memory.mean,
                })
            };
            let here = value(claim.against)
                .zip(value(claim.policy))
                .and_then(|(before, after)| less(before, after));
            let compared = Compared {
                figure: "13",
                name: format!(
                    "{}, {}: DTS under {}",
                    claim.application.name(),
                    claim.measure.name(),
                    claim.against
                ),
                unit: PERCENT,
                paper: hundredths(claim.percent.into()),
                here,
                basis: if claim.application == Application::Ss {
                    Basis::Fitted
                } else {
                    Basis::Simulated
                },
            };
            compared.is(Relation::AtLeast, memory_reason(claim.application))
        })
        .collect();
    claims.extend(runtime_claims(&stable));
    claims
}

/// Reason why the saving of an application differs.
const fn memory_reason(application: Application) -> &'static str {
    match application {
        Application::Svt | Application::QaAudio => {
            "with the operator's headroom INFless is not timely, so it takes too little memory (see the \
             statement on timely policies); and the saving grows with the load, which the text does not give"
        }
        Application::Ss => "Use is fitted to the ratio of INFless to Photons at 20 requests/s",
        Application::QaText => {
            "its models have 59 MB of tensors and 336 MB of private memory, so the saving is that of \
             larger batches, whose sizes follow from assumed latencies"
        }
    }
}

/// Memory that DTS saves for an application under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoadRow {
    /// Application.
    pub application: Application,
    /// Load of SVT, in requests per second.
    pub rps: u64,
    /// Policy that takes more.
    pub against: Policy,
    /// Reduction of mean memory, in hundredths of a percent.
    pub saved: i64,
}

/// Returns the savings by load.
pub(super) fn load_rows(runs: &[TetrisRun]) -> Vec<LoadRow> {
    let mut rows = Vec::new();
    for application in Application::ALL {
        for against in [Policy::Infless, Policy::Photons] {
            rows.extend(LOADS_OF_SVT.iter().filter_map(|&rps| {
                let mean = |policy| {
                    let mut of_load = runs.iter().filter(|run| {
                        (run.experiment, run.cell) == (Experiment::Load, application.name())
                            && (run.policy, run.rps) == (policy, Some(rps))
                    });
                    of_load.next().map(|run| run.memory_bytes.mean)
                };
                Some(LoadRow {
                    application,
                    rps,
                    against,
                    saved: less(mean(against)?, mean(Policy::Dts)?)?,
                })
            }));
        }
    }
    rows
}

/// Statements on DTS without shared tensors.
fn runtime_claims<'a>(
    stable: &impl Fn(Application, Policy) -> Option<&'a TetrisRun>,
) -> Vec<TetrisClaim> {
    let mut claims = Vec::new();
    let saved = |application, policy| {
        let mean = |policy| Some(stable(application, policy)?.memory_bytes.mean);
        less(mean(policy)?, mean(Policy::DtsRo)?)
    };
    let claim = |name: String, paper, here| Compared {
        figure: "13",
        name,
        unit: PERCENT,
        paper,
        here,
        basis: Basis::Simulated,
    };
    for application in [Application::Svt, Application::QaAudio, Application::QaText] {
        for policy in [Policy::Infless, Policy::Photons] {
            let name = format!("{}, mean memory: DTS-RO under {policy}", application.name());
            let why =
                "a single instance more of a large model outweighs the runtimes that DTS saves";
            claims.push(claim(name, 0, saved(application, policy)).is(Relation::AtLeast, why));
        }
    }
    claims.push(
        claim(
            "QA-Text, mean memory: saved by runtime sharing (DTS-RO under Photons)".to_owned(),
            2_100,
            saved(Application::QaText, Policy::Photons),
        )
        .is(Relation::Near, memory_reason(Application::QaText)),
    );
    claims
}

/// Greatest number of requests that an instance of an application's functions has in flight.
/// `models` selects the functions by their names.
fn in_flight(
    application: Application,
    policy: Policy,
    models: impl Fn(&str) -> bool,
) -> Result<i64, SimulationError> {
    let assumptions = Assumptions::default();
    let platform = Platform::default();
    let rules = WeightRules {
        sharing: policy.sharing(),
        copied_permille: platform.copied_permille,
        keep_alive_us: 0,
    };
    let mut cluster = Cluster::try_new(8, rules)?;
    let load = Rate::from_rps(20).times(assumptions.models.load_factor(application));
    let mut most = 0;
    let parts = application.stages().iter().copied().flatten();
    for &(model, variant) in parts.filter(|(model, _)| models(model.name)) {
        let function = Function::try_new(model, variant, &ModelAssumptions::default())?;
        let started = scale_out(policy, &function, load, &mut cluster, &platform)?;
        let all = function.profile.configurations();
        let starts = started.starts.iter();
        let instances = starts.filter_map(|start| all.get(start.configuration));
        let requests = instances.map(|entry| u64::from(entry.concurrency() * entry.batch()));
        most = requests.max().unwrap_or(0).max(most);
    }
    Ok(hundredths(most))
}

/// Returns the text's statements on configurations (5.3).
pub(super) fn shape_claims() -> Result<Vec<TetrisClaim>, SimulationError> {
    let claim = |name: &str, paper: u64, here: i64, basis| Compared {
        figure: "13",
        name: format!("most requests in an instance: {name}"),
        unit: "requests",
        paper: hundredths(paper),
        here: Some(here),
        basis,
    };
    // The text has SVT's threads. SSD is small and has more here.
    let resnet = |policy| in_flight(Application::Svt, policy, |name| name == "Resnet152");
    let audio = |policy| in_flight(Application::QaAudio, policy, |_| true);
    let why = "the objective and the work of a request are assumed";
    Ok(vec![
        claim(
            "Resnet152 of SVT, Photons",
            2,
            resnet(Policy::Photons)?,
            Basis::Fitted,
        )
        .is(Relation::Near, why),
        claim(
            "Resnet152 of SVT, DTS-RO",
            3,
            resnet(Policy::DtsRo)?,
            Basis::Simulated,
        )
        .is(Relation::Near, why),
        claim(
            "QA-Audio, Photons",
            4,
            audio(Policy::Photons)?,
            Basis::Fitted,
        )
        .is(Relation::Near, why),
        claim(
            "QA-Audio, DTS-RO",
            12,
            audio(Policy::DtsRo)?,
            Basis::Simulated,
        )
        .is(
            Relation::Near,
            "the paper has two threads with batches of 6, where its B has only 1, 2 and 4 (3.2)",
        ),
    ])
}

/// Returns the text's statements on figure 14(a).
pub(super) fn late_claims(runs: &[TetrisRun]) -> Vec<TetrisClaim> {
    let claim = |name: String, paper, here| Compared {
        figure: "14a",
        name,
        unit: PERCENT,
        paper,
        here,
        basis: Basis::Simulated,
    };
    let most = |experiment, kinds: &[TraceKind], policy| {
        let of_policy = runs.iter().filter(|run| {
            (run.experiment, run.policy) == (experiment, policy) && kinds.contains(&run.kind)
        });
        of_policy.map(TetrisRun::late_share).max()
    };
    let bound = hundredths(MOST_VIOLATIONS_PERCENT.into());
    let mut claims = Vec::new();
    for policy in [Policy::Dts, Policy::Infless] {
        for (loads, experiment) in [
            ("a minute's mean", Experiment::Overall),
            ("loads from gateways", Experiment::Gateways),
        ] {
            for kind in TraceKind::ALL {
                let here = most(experiment, &[kind], policy);
                let name = format!("most of four applications: {policy}, {kind}, {loads}");
                let why = late_reason(policy, experiment);
                claims.push(claim(name, bound, here).is(Relation::AtMost, why));
            }
        }
    }
    for application in Application::ALL {
        let late = |policy| {
            find(
                runs,
                Experiment::Gateways,
                application,
                TraceKind::Stable,
                policy,
            )
            .map(TetrisRun::late_share)
        };
        let more = late(Policy::Dts)
            .zip(late(Policy::Infless))
            .map(|(dts, infless)| dts - infless);
        let name = format!("{}: points of DTS over INFless, stable", application.name());
        let why = "DTS packs instances onto few nodes, where they slow each other down";
        // DTS is better in SVT and SS, and slightly worse in the others; its bound is 4 % in all.
        let paper = match application {
            Application::Svt | Application::Ss => 0,
            Application::QaAudio | Application::QaText => bound,
        };
        claims.push(claim(name, paper, more).is(Relation::AtMost, why));
    }
    claims
}

const fn late_reason(policy: Policy, experiment: Experiment) -> &'static str {
    match (policy, experiment) {
        (Policy::Infless, _) => {
            "an instance of INFless has one thread: with the operator's headroom requests wait longer than \
             its latency leaves of the objective (see the table of timely policies)"
        }
        (_, Experiment::Gateways) => "a backlog lasts until an instance has started",
        _ => {
            "the mean of a minute is too slow for loads that move; loads from gateways are the operator's remedy"
        }
    }
}
