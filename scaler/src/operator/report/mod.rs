//! Reports on a function: conditions, numbers and events.

mod conditions;
mod events;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use tetris_scaler_core::{FunctionDecision, Rate};

use super::action::Action;
use super::latency::Service;
use super::observed::FunctionInput;
use crate::resources::{Condition, ConfigurationStatus, FieldProblem, InferenceFunctionStatus};
use conditions::{Said, conditions};

/// Input of a report.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The function.
    pub input: &'a FunctionInput,
    /// The decision, if there is one.
    pub decision: Option<&'a FunctionDecision>,
    /// Number of ready instances, by configuration.
    pub ready: &'a BTreeMap<String, u32>,
    /// Its latency in service, beside that of the profile.
    pub service: Option<&'a Service>,
    /// The reason the decision cannot be executed.
    pub problem: Option<&'a FieldProblem>,
    /// Current time, in milliseconds since the epoch.
    pub now_ms: u64,
}

/// Returns the status to write, if it differs from the last one, and events about changes. Changes
/// of only the numbers are written at intervals.
pub fn report(facts: &Facts<'_>) -> Vec<Action> {
    let before = &facts.input.record.status;
    let now = status(facts);
    let mut actions = events::events(facts, before, &now);
    let is_due = if without_numbers(before) == without_numbers(&now) {
        facts.input.refresh_status && *before != now
    } else {
        true
    };
    if is_due {
        actions.push(Action::Status(Box::new(now)));
    }
    actions
}

fn status(facts: &Facts<'_>) -> InferenceFunctionStatus {
    let record = &facts.input.record;
    let said = conditions(facts);
    let message = said.first().map(|ready| ready.message.clone());
    let configurations = configurations(facts);
    let sum = |count: fn(&ConfigurationStatus) -> u32| {
        let counts = configurations.iter().map(count);
        Some(counts.fold(0, u32::saturating_add))
    };
    InferenceFunctionStatus {
        conditions: said
            .into_iter()
            .map(|said| condition(facts, said))
            .collect(),
        observed_generation: Some(record.generation),
        load: facts.input.load.as_ref().ok().map(|load| short(*load)),
        instances: sum(|entry| entry.replicas),
        ready: sum(|entry| entry.ready),
        configurations,
        message,
    }
}

fn configurations(facts: &Facts<'_>) -> Vec<ConfigurationStatus> {
    let mut all: BTreeMap<String, ConfigurationStatus> = BTreeMap::new();
    let status = |name: &str, ready: u32| ConfigurationStatus {
        name: name.to_owned(),
        replicas: 0,
        ready,
    };
    for (name, ready) in facts.ready {
        all.insert(name.clone(), status(name, *ready));
    }
    if let (Ok(prepared), Some(decision)) = (&facts.input.prepared, facts.decision) {
        for (index, replicas) in &decision.replicas {
            if let Some(name) = prepared.names.get(*index).filter(|_| *replicas > 0) {
                let entry = all.entry(name.clone()).or_insert_with(|| status(name, 0));
                entry.replicas = *replicas;
            }
        }
    } else {
        // Without a decision, the last requested numbers still hold.
        for last in &facts.input.record.status.configurations {
            let entry = all
                .entry(last.name.clone())
                .or_insert_with(|| status(&last.name, 0));
            entry.replicas = last.replicas;
        }
    }
    all.into_values().collect()
}

/// Returns a condition, with the time of its last change.
fn condition(facts: &Facts<'_>, said: Said) -> Condition {
    let before = &facts.input.record.status.conditions;
    let last = before.iter().find(|last| last.r#type == said.what);
    let since = last.filter(|last| last.status == said.status);
    let now = || {
        let millis = i64::try_from(facts.now_ms).unwrap_or(i64::MAX);
        let now = Timestamp::from_millisecond(millis).unwrap_or_default();
        now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    Condition {
        r#type: said.what.to_owned(),
        status: said.status.to_owned(),
        reason: said.reason.to_owned(),
        message: said.message,
        observed_generation: Some(facts.input.record.generation),
        last_transition_time: since.map_or_else(now, |last| last.last_transition_time.clone()),
    }
}

/// Formats a load with three digits, as the fourth changes all the time.
fn short(load: Rate) -> String {
    let micro = load.micro_rps();
    let digits = micro.checked_ilog10().unwrap_or(0).saturating_sub(2);
    let unit = 10_u64.saturating_pow(digits).max(1);
    let rounded = (micro / unit).saturating_mul(unit);
    let text = Rate::from_micro_rps(rounded).to_string();
    text.trim_end_matches(" requests/s").to_owned()
}

/// Returns the part of a status that changes only with events.
fn without_numbers(status: &InferenceFunctionStatus) -> InferenceFunctionStatus {
    let mut rest = status.clone();
    rest.load = None;
    rest.message = None;
    for condition in &mut rest.conditions {
        condition.message = String::new();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_three_digits() {
        for (micro, text) in [
            (0, "0"),
            (7, "0.000007"),
            (1_234_567, "1.23"),
            (123_456_789, "123"),
            (123_956_000_000, "123000"),
        ] {
            assert_eq!(short(Rate::from_micro_rps(micro)), text);
        }
    }
}
