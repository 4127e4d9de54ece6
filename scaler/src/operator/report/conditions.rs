//! Conditions of a function.

use tetris_scaler_core::{FunctionDecision, FunctionOutcome, Rate};

use super::Facts;
use crate::load::LoadError;
use crate::operator::prepare::Unprepared;
use crate::resources::LoadSource;
use crate::state::infeasible;

/// A condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// Type of the condition.
    pub what: &'static str,
    /// True, False or Unknown.
    pub status: &'static str,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The reason, in a sentence.
    pub message: String,
}

/// Returns all conditions, `Ready` first.
pub(super) fn conditions(facts: &Facts<'_>) -> Vec<Said> {
    let (profile, unprepared) = match &facts.input.prepared {
        Ok(_) => (said("ProfileFound", "True", "Found", ""), None),
        Err(error) => (profile(error), Some(error)),
    };
    let (Some(decision), None) = (facts.decision, unprepared) else {
        let (reason, message) = match unprepared {
            Some(error) => (reason_of(error), error.to_string()),
            None => ("Deleting", "the function is being deleted".to_owned()),
        };
        let unknown = |what| said(what, "Unknown", reason, "");
        let mut all = vec![
            said("Ready", "False", reason, &message),
            profile,
            load(facts),
            unknown("Feasible"),
            healthy(facts),
            said(
                "Progressing",
                "False",
                reason,
                "no changes until the problem is fixed",
            ),
        ];
        if facts.input.record.measures_latency() {
            all.push(unknown("AsProfiled"));
        }
        all.extend(profiled(facts));
        return all;
    };
    let mut all = vec![
        ready(facts, decision),
        profile,
        load(facts),
        feasible(decision),
        healthy(facts),
        progressing(facts, decision),
    ];
    all.extend(as_profiled(facts));
    all.extend(profiled(facts));
    all
}

fn said(what: &'static str, status: &'static str, reason: &'static str, message: &str) -> Said {
    let message = message.to_owned();
    Said {
        what,
        status,
        reason,
        message,
    }
}

fn reason_of(error: &Unprepared) -> &'static str {
    match error {
        Unprepared::Field(_) => "InvalidField",
        Unprepared::NoProfile(_) => "ProfileNotFound",
        Unprepared::Profile { .. } => "InvalidProfile",
        Unprepared::Unmeasured => "Measuring",
        Unprepared::Engine(problem) => problem.reason(),
    }
}

fn profile(error: &Unprepared) -> Said {
    let status = match error {
        Unprepared::Field(_) | Unprepared::Engine(_) => "Unknown",
        _ => "False",
    };
    said("ProfileFound", status, reason_of(error), &error.to_string())
}

fn load(facts: &Facts<'_>) -> Said {
    let function = facts.input.record.function.as_ref().ok();
    let is_static = function.is_some_and(|fact| matches!(fact.load, LoadSource::Static(_)));
    match &facts.input.load {
        _ if function.is_none() => said("LoadKnown", "Unknown", "InvalidField", ""),
        Ok(_) if is_static => said("LoadKnown", "True", "Static", ""),
        Ok(_) => said("LoadKnown", "True", "Measured", ""),
        Err(error) => {
            let message = format!("{error}; nothing is released until it is known");
            let status = match error {
                LoadError::NoServer => "False",
                _ => "Unknown",
            };
            said("LoadKnown", status, error.reason(), &message)
        }
    }
}

fn ready(facts: &Facts<'_>, decision: &FunctionDecision) -> Said {
    let message = outcome(facts, decision);
    if let Some(problem) = facts.problem {
        return said("Ready", "False", "InvalidField", &problem.to_string());
    }
    let count: u32 = facts
        .ready
        .values()
        .fold(0, |sum, one| sum.saturating_add(*one));
    let asked = decision.replicas.values().any(|count| *count > 0);
    if decision.needed == Rate::ZERO && !asked && facts.input.load.is_ok() {
        return said("Ready", "True", "Idle", &message);
    }
    if facts.input.load.is_err() {
        let status = if count > 0 { "True" } else { "False" };
        return said("Ready", status, "LoadUnknown", &message);
    }
    if decision.ready >= decision.needed && count > 0 {
        return said("Ready", "True", "Serving", &message);
    }
    let reason = infeasible(&decision.outcome);
    let failing = facts.input.failing.reason();
    if let (None, Some(reason)) = (reason, failing) {
        return said("Ready", "False", reason, &facts.input.failing.to_string());
    }
    said("Ready", "False", reason.unwrap_or("Starting"), &message)
}

fn healthy(facts: &Facts<'_>) -> Said {
    let failing = &facts.input.failing;
    match failing.reason() {
        None => said("Healthy", "True", "Healthy", ""),
        Some(reason) => said("Healthy", "False", reason, &failing.to_string()),
    }
}

/// Compares the latency with the profile, if it is measured.
fn as_profiled(facts: &Facts<'_>) -> Option<Said> {
    let what = "AsProfiled";
    let unknown = |reason, message: &str| {
        let message = format!("{message}; the profile is believed");
        said(what, "Unknown", reason, &message)
    };
    if !facts.input.record.measures_latency() {
        return None;
    }
    let latency = facts.input.latency.as_ref();
    Some(
        match (latency.unwrap_or(&Err(LoadError::NotAsked)), facts.service) {
            (Err(error), _) => unknown(error.reason(), &format!("latency: {error}")),
            (Ok(_), None) if facts.input.load.is_err() => unknown(
                "LoadUnknown",
                "the load is not known, so requests may be late for another reason",
            ),
            (Ok(_), None) if facts.ready.values().all(|count| *count == 0) => {
                unknown("NoneReady", "no instance is ready")
            }
            (Ok(_), None) => unknown(
                "Overloaded",
                "the load exceeds what the ready instances carry",
            ),
            (Ok(_), Some(service)) if service.more_percent == 0 => said(what, "True", what, ""),
            (Ok(_), Some(service)) => {
                let (measured, expected) = (service.measured_us, service.expected_us);
                let ms = |us: u64| us as f64 / 1_000.0;
                let message = format!(
                    "a batch takes {:.1} ms, {:.1} ms in the profile: the load counts for {} % more; profile again, on these machines and beside neighbors",
                    ms(measured),
                    ms(expected),
                    service.more_percent,
                );
                said(what, "False", "SlowerThanProfiled", &message)
            }
        },
    )
}

/// The measurement by the operator.
fn profiled(facts: &Facts<'_>) -> Option<Said> {
    let state = facts.input.profiling.as_ref()?;
    Some(said("Profiled", state.status, state.reason, &state.message))
}

fn feasible(decision: &FunctionDecision) -> Said {
    let reason = infeasible(&decision.outcome);
    let message = reason.map(|_| decision.outcome.to_string());
    said(
        "Feasible",
        if reason.is_some() { "False" } else { "True" },
        reason.unwrap_or("Feasible"),
        &message.unwrap_or_default(),
    )
}

fn progressing(facts: &Facts<'_>, decision: &FunctionDecision) -> Said {
    let message = outcome(facts, decision);
    let reason = match &decision.outcome {
        _ if facts.problem.is_some() => {
            return said("Progressing", "False", "InvalidField", "");
        }
        FunctionOutcome::ScaledOut { .. } => "ScaledOut",
        FunctionOutcome::ScaledIn { .. } => "ScaledIn",
        FunctionOutcome::Consolidating { .. } => "Consolidating",
        FunctionOutcome::Renewing { .. } => "Renewing",
        FunctionOutcome::MakingRoom { .. } => "MakingRoom",
        _ if !decision.start.is_empty() => "Starting",
        _ if decision.ready < decision.capacity => "Starting",
        _ => return said("Progressing", "False", "Steady", ""),
    };
    said("Progressing", "True", reason, &message)
}

fn outcome(facts: &Facts<'_>, decision: &FunctionDecision) -> String {
    match &facts.input.load {
        Err(error) => format!("{}: {error}", decision.outcome),
        Ok(_) => decision.outcome.to_string(),
    }
}
