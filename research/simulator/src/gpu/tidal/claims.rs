//! The paper's statements on figure 19 beside the simulation.

use serde::Serialize;

use super::TidalRuns;
use super::functions::Function;
use super::outcome::{STAGES, TidalOutcome};
use super::setting::TidalSetting;
use super::system::{TidalSystem, run};

/// A value of the paper or a bound, and ours, in hundredths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TidalClaim {
    /// Figure of the paper.
    pub figure: &'static str,
    /// Value.
    pub name: String,
    /// The paper's value, where it gives one.
    pub paper: Option<i64>,
    /// The simulation's value.
    pub simulated: i64,
    /// Least and greatest value that meets the bar.
    pub bar: (i64, i64),
}

impl TidalClaim {
    /// Returns true if the value meets its bar.
    pub const fn is_met(&self) -> bool {
        self.bar.0 <= self.simulated && self.simulated <= self.bar.1
    }

    fn near(figure: &'static str, name: &str, paper: i64, simulated: i64, within: i64) -> Self {
        Self {
            figure,
            name: name.to_owned(),
            paper: Some(paper),
            simulated,
            bar: (paper - within, paper + within),
        }
    }

    fn at_most(figure: &'static str, name: String, simulated: i64, most: i64) -> Self {
        Self {
            figure,
            name,
            paper: None,
            simulated,
            bar: (i64::MIN, most),
        }
    }
}

/// Change from `before` to `after`, in hundredths of a percent.
pub(super) fn change(before: u64, after: u64) -> i64 {
    let before = i128::from(before.max(1));
    let change = (i128::from(after) - before) * 10_000 / before;
    i64::try_from(change).unwrap_or(i64::MAX)
}

/// Least gain that counts as one, in hundredths of a percent.
const GAIN: i64 = -1;
/// Greatest loss of functions without a template that counts as none, in hundredths of a percent.
const UNHURT: i64 = 100;

/// Claims on the runs with the keep-alive of the loading time and of 10 s.
pub(super) fn claims(
    setting: &TidalSetting,
    short: &TidalRuns,
    long: &TidalRuns,
) -> Vec<TidalClaim> {
    let mut claims = vec![TidalClaim::near(
        "13",
        "ServerlessLLM over Tidal, cold start with 2,048 tokens: factor",
        200,
        cold_factor(setting),
        20,
    )];
    let of = |runs: &TidalRuns, system| runs.find(system).map(|run| run.outcome.clone());
    let Some([baseline, tidal, dk, dk6g]) = all(short, of) else {
        return claims;
    };
    let p95 = |one: &TidalOutcome| one.percentile_us(95);
    claims.push(TidalClaim::near(
        "19a",
        "Tidal: p95 against ServerlessLLM, %",
        -7_600,
        change(p95(&baseline), p95(&tidal)),
        500,
    ));
    for (name, before, after) in [
        ("Tidal-DK against Tidal", &tidal, &dk),
        ("Tidal-DK-6G against Tidal-DK", &dk, &dk6g),
    ] {
        let mean = change(before.mean_us, after.mean_us);
        claims.push(TidalClaim::at_most(
            "19a",
            format!("{name}: mean, %"),
            mean,
            GAIN,
        ));
        let tail = change(p95(before), p95(after));
        claims.push(TidalClaim::at_most(
            "19a",
            format!("{name}: p95, %"),
            tail,
            GAIN,
        ));
        claims.push(TidalClaim::at_most(
            "19a",
            format!("{name}: percentiles that are over 1 % slower"),
            slower(before, after) * 100,
            0,
        ));
    }
    claims.push(TidalClaim::at_most(
        "19a",
        "Tidal-DK-6G against Tidal-DK: mean of functions without a template, %".to_owned(),
        change(dk.others_mean_us, dk6g.others_mean_us),
        UNHURT,
    ));
    let Some([baseline, tidal, dk, dk6g]) = all(long, of) else {
        return claims;
    };
    let mut from = 0;
    for (at, to) in STAGES.into_iter().enumerate() {
        let stage = |one: &TidalOutcome| one.stages_us.get(at).copied().unwrap_or(0);
        for (system, entry) in [("Tidal", &tidal), ("Tidal-DK", &dk), ("Tidal-DK-6G", &dk6g)] {
            let name = format!("{system}: mean from {from} % to {to} % against ServerlessLLM, %");
            let value = change(stage(&baseline), stage(entry));
            claims.push(TidalClaim::at_most("19b", name, value, GAIN));
        }
        from = to;
    }
    claims
}

/// Number of percentiles at which `after` is slower by more than a hundredth.
fn slower(before: &TidalOutcome, after: &TidalOutcome) -> i64 {
    let pairs = before.percentiles_us.iter().zip(&after.percentiles_us);
    let slower = pairs.filter(|(pair, other)| **other > **pair + **pair / 100);
    i64::try_from(slower.count()).unwrap_or(i64::MAX)
}

fn all(
    runs: &TidalRuns,
    of: impl Fn(&TidalRuns, TidalSystem) -> Option<TidalOutcome>,
) -> Option<[TidalOutcome; 4]> {
    let outcomes: Option<Vec<TidalOutcome>> = TidalSystem::ALL
        .into_iter()
        .map(|system| of(runs, system))
        .collect();
    outcomes?.try_into().ok()
}

/// Mean factor of a cold start over the kinds of functions with 2,048 tokens, in hundredths.
fn cold_factor(setting: &TidalSetting) -> i64 {
    let alone = |function: &Function, system| {
        let records = run(setting, system, &[(0, function.number)]);
        let first = records.requests.first();
        first.and_then(|request| request.latency_us).unwrap_or(0)
    };
    let code = Function::all()
        .into_iter()
        .filter(|entry| entry.tokens == 2_048);
    let factors: Vec<u64> = code
        .filter_map(|function| {
            let cold = alone(&function, TidalSystem::ServerlessLlm) * 100;
            cold.checked_div(alone(&function, TidalSystem::Tidal))
        })
        .collect();
    let sum: u64 = factors.iter().sum();
    let mean = sum.checked_div(factors.len() as u64).unwrap_or(0);
    i64::try_from(mean).unwrap_or(i64::MAX)
}
