//! Events, one for each change.

use tetris_scaler_core::FunctionOutcome;

use super::Facts;
use crate::operator::action::Action;
use crate::resources::InferenceFunctionStatus;
use crate::state::infeasible;

/// Returns the events about changes between two statuses.
pub(super) fn events(
    facts: &Facts<'_>,
    before: &InferenceFunctionStatus,
    now: &InferenceFunctionStatus,
) -> Vec<Action> {
    let mut events = Vec::new();
    if let Some(decision) = facts.decision {
        let asked = |status: &InferenceFunctionStatus| status.instances.unwrap_or(0);
        let numbers = format!("{} instances, before {}", asked(now), asked(before));
        match &decision.outcome {
            _ if asked(now) > asked(before) => {
                let note = format!("{numbers}: {}", decision.outcome);
                events.push(event(false, "ScaledOut", &note));
            }
            _ if asked(now) < asked(before) => {
                let note = format!("{numbers}: {}", decision.outcome);
                events.push(event(false, "ScaledIn", &note));
            }
            FunctionOutcome::Consolidating { .. }
                if !says(before, "Progressing", "Consolidating") =>
            {
                let note = decision.outcome.to_string();
                events.push(event(false, "Consolidating", &note));
            }
            _ => {}
        }
        if let Some(reason) = infeasible(&decision.outcome)
            && !says(before, "Feasible", reason)
        {
            events.push(event(true, reason, &decision.outcome.to_string()));
        }
    }
    let reason = |what: &str| {
        let mut all = now.conditions.iter();
        all.find(|condition| condition.r#type == what)
            .map(|condition| &condition.reason)
    };
    for what in ["Ready", "LoadKnown", "Healthy", "Profiled"] {
        let present = now
            .conditions
            .iter()
            .find(|condition| condition.r#type == what);
        // One event covers two conditions.
        let told = present
            .filter(|condition| what == "Ready" || reason("Ready") != Some(&condition.reason));
        let wrong = told.filter(|condition| {
            is_wrong(&condition.reason) && !says(before, what, &condition.reason)
        });
        if let Some(one) = wrong {
            events.push(event(true, &one.reason, &one.message));
        }
    }
    events
}

/// Returns true for reasons that need action.
fn is_wrong(reason: &str) -> bool {
    let fine = [
        "Serving",
        "Healthy",
        "Idle",
        "Starting",
        "Measured",
        "Measuring",
        "ModelNotPresent",
        "Static",
        "LoadUnknown",
        "NotAskedYet",
        "AtMaximum",
        "NoConfiguration",
        "SloTooTight",
        "NoNodeLargeEnough",
        "OutOfRoom",
        "Unplanned",
    ];
    !fine.contains(&reason)
}

fn says(status: &InferenceFunctionStatus, what: &str, reason: &str) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.r#type == what && condition.reason == reason)
}

fn event(is_warning: bool, reason: &str, note: &str) -> Action {
    Action::Event {
        is_warning,
        reason: reason.to_owned(),
        note: note.chars().take(1_000).collect(),
    }
}
