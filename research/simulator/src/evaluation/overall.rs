//! Memory, configurations and late requests of the four applications (figures 13 and 14a).

use tetris_scaler_core::Rate;
use tetris_simulation::TraceKind;

use super::claim::{Basis, Compared, PERCENT, Relation, TetrisClaim, hundredths, less};
use super::grid::Experiment;
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
        Application::Svt => {
            "latencies and loads are assumed: here nine instances of INFless carry SVT, and private \
             memory is as large as the tensors of SSD and Resnet152"
        }
        Application::QaAudio => {
            "latencies are assumed: fewer instances of each model carry the load here, and the first of a \
             model saves nothing"
        }
        Application::Ss => "Use is fitted to the ratio of INFless to Photons, not to each of them",
        Application::QaText => {
            "the three models have 59 MB of tensors and 336 MB of private memory, so the saving is that of \
             larger batches, whose sizes follow from assumed latencies"
        }
    }
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

/// Greatest number of requests that an instance of an application has in flight, and of its threads.
fn in_flight(application: Application, policy: Policy) -> Result<[u64; 2], SimulationError> {
    let assumptions = Assumptions::default();
    let platform = Platform::default();
    let rules = WeightRules {
        sharing: policy.sharing(),
        copied_permille: platform.copied_permille,
        keep_alive_us: 0,
    };
    let mut cluster = Cluster::try_new(8, rules)?;
    let load = Rate::from_rps(20).times(assumptions.models.load_factor(application));
    let mut most = [0, 0];
    for &(model, variant) in application.stages().iter().copied().flatten() {
        let function = Function::try_new(model, variant, &ModelAssumptions::default())?;
        let started = scale_out(policy, &function, load, &mut cluster, &platform)?;
        let all = function.profile.configurations();
        for start in started
            .starts
            .iter()
            .filter_map(|start| all.get(start.configuration))
        {
            let threads = u64::from(start.concurrency());
            let [requests, most_threads] = most;
            most = [
                requests.max(threads * u64::from(start.batch())),
                most_threads.max(threads),
            ];
        }
    }
    Ok(most)
}

/// Returns the text's statements on configurations (5.3).
pub(super) fn shape_claims() -> Result<Vec<TetrisClaim>, SimulationError> {
    let claim = |name: &str, paper: u64, here: u64| Compared {
        figure: "13",
        name: name.to_owned(),
        unit: "requests",
        paper: hundredths(paper),
        here: Some(hundredths(here)),
        basis: Basis::Simulated,
    };
    // SSD is small: the text's threads are those of Resnet152.
    let resnet = |policy| -> Result<u64, SimulationError> {
        let [_, threads] = in_flight(Application::Svt, policy)?;
        Ok(threads)
    };
    let audio = |policy| in_flight(Application::QaAudio, policy).map(|[requests, _]| requests);
    let threads = "the objective and the work of a request are assumed";
    Ok(vec![
        claim(
            "SVT, most threads of an instance under Photons",
            2,
            resnet(Policy::Photons)?,
        )
        .is(Relation::Near, threads),
        claim(
            "SVT, most threads of an instance under DTS-RO",
            3,
            resnet(Policy::DtsRo)?,
        )
        .is(Relation::Near, threads),
        claim(
            "QA-Audio, most requests in an instance under Photons",
            4,
            audio(Policy::Photons)?,
        )
        .is(Relation::Near, threads),
        claim(
            "QA-Audio, most requests in an instance under DTS-RO",
            12,
            audio(Policy::DtsRo)?,
        )
        .is(
            Relation::Near,
            "two threads with batches of 6 in the paper, whose B has only 1, 2 and 4 (3.2)",
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
    for policy in [Policy::Dts, Policy::SharingAware, Policy::Infless] {
        for (loads, experiment) in [
            ("a minute's mean", Experiment::Overall),
            ("loads from gateways", Experiment::Gateways),
        ] {
            for kind in TraceKind::ALL {
                let here = most(experiment, &[kind], policy);
                let name = format!("late, most of four applications: {policy}, {kind}, {loads}");
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
        let name = format!(
            "{}, late: points of DTS over INFless, stable",
            application.name()
        );
        let why = "batches of INFless have less time to fill under assumed latencies";
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
    match (experiment, policy) {
        (Experiment::Gateways, _) => {
            "a backlog lasts until an instance has started; the paper gives neither loads nor their changes"
        }
        (_, Policy::Infless) => {
            "the mean of a minute is late by up to 15 s, and full batches leave no time to make up for it"
        }
        _ => {
            "the mean of a minute is too slow for loads that move; loads from gateways are the operator's remedy"
        }
    }
}
