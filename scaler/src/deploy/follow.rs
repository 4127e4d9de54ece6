//! The way of a function until it serves. Purely.

use crate::operator::profiling_state::NOT_MEASURABLE;
use crate::resources::{Condition, InferenceFunctionStatus, ModelStatus};

use super::args::WaitFor;

/// State of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not there yet, with what is happening.
    Going(String),
    /// As it should be.
    Done,
    /// A state that does not end by waiting: the reason in one word, and in a sentence.
    Stopped(String, String),
}

/// Reasons that wait for someone.
const HOPELESS: [&str; 13] = [
    "InvalidField",
    "EngineNotInstalled",
    "NoEngine",
    "InvalidEngine",
    "InvalidProfile",
    "ProfileNotFound",
    "NoCommand",
    "NoProfiler",
    "ForeignJob",
    "InvalidResult",
    "JobFailed",
    "NoTemplate",
    "WriteFailed",
];
/// Reasons of `Feasible` that no wait changes once the function is measured.
const INFEASIBLE: [&str; 3] = ["NoConfiguration", "SloTooTight", "NoNodeLargeEnough"];

/// Returns the state of a function by its status and that of its Model, of the given generations.
pub(super) fn progress(
    wait: WaitFor,
    model: Option<&ModelStatus>,
    function: Option<(&InferenceFunctionStatus, i64)>,
) -> Progress {
    let model_ready = model.and_then(|status| condition(&status.conditions, "Ready"));
    if let Some(ready) = model_ready.filter(|ready| HOPELESS.contains(&ready.reason.as_str())) {
        return Progress::Stopped(ready.reason.clone(), format!("Model: {}", ready.message));
    }
    let current = function.filter(|(status, generation)| {
        status
            .observed_generation
            .is_some_and(|seen| seen >= *generation)
    });
    let Some((status, _)) = current else {
        return Progress::Going("waiting for the operator".to_owned());
    };
    let get = |kind| condition(&status.conditions, kind);
    let (ready, profiled, feasible) = (get("Ready"), get("Profiled"), get("Feasible"));
    for condition in [profiled, ready].into_iter().flatten() {
        let is_hopeless = HOPELESS.contains(&condition.reason.as_str());
        if is_hopeless && condition.status != "True" {
            return stopped(condition);
        }
    }
    let is_profiled = profiled
        .is_none_or(|profiled| profiled.status == "True" || profiled.reason == NOT_MEASURABLE);
    if let Some(feasible) = feasible
        && is_profiled
        && INFEASIBLE.contains(&feasible.reason.as_str())
    {
        return stopped(feasible);
    }
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    if is_ready && (is_profiled || wait < WaitFor::Profiled) {
        return Progress::Done;
    }
    let model_text = model_ready
        .filter(|ready| ready.status != "True")
        .map(|ready| {
            format!(
                "model: {}",
                pulling(model).unwrap_or_else(|| ready.message.clone())
            )
        });
    let profiled_text = profiled
        .filter(|profiled| profiled.status != "True")
        .map(|profiled| format!("profile: {}", profiled.message));
    let ready_text = ready
        .filter(|ready| ready.status != "True")
        .map(|ready| format!("function: {}", ready.message));
    let text = model_text.or(profiled_text).or(ready_text);
    Progress::Going(text.unwrap_or_else(|| "waiting for the operator".to_owned()))
}

fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.r#type == kind)
}

fn stopped(condition: &Condition) -> Progress {
    Progress::Stopped(condition.reason.clone(), condition.message.clone())
}

/// Progress of the node with the pull.
fn pulling(model: Option<&ModelStatus>) -> Option<String> {
    let nodes = model.into_iter().flat_map(|status| &status.nodes);
    let mut pulling = nodes.filter_map(|node| {
        let (done, total) = (node.done_bytes?, node.total_bytes?);
        let percent = done.saturating_mul(100) / total.max(1);
        Some(format!("{percent} % on {}", node.name))
    });
    pulling.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(conditions: &[(&str, &str, &str)]) -> InferenceFunctionStatus {
        let conditions = conditions.iter().map(|(kind, status, reason)| Condition {
            r#type: (*kind).to_owned(),
            status: (*status).to_owned(),
            reason: (*reason).to_owned(),
            message: format!("about {reason}"),
            ..Condition::default()
        });
        InferenceFunctionStatus {
            conditions: conditions.collect(),
            observed_generation: Some(2),
            ..InferenceFunctionStatus::default()
        }
    }

    fn of(wait: WaitFor, conditions: &[(&str, &str, &str)]) -> Progress {
        progress(wait, None, Some((&status(conditions), 2)))
    }

    #[test]
    fn a_function_is_done_when_it_serves_and_is_measured_as_asked() {
        let serving = ("Ready", "True", "Serving");
        let measuring = ("Profiled", "Unknown", "Measuring");
        assert_eq!(of(WaitFor::Serving, &[serving, measuring]), Progress::Done);
        let going = of(WaitFor::Profiled, &[serving, measuring]);
        assert_eq!(
            going,
            Progress::Going("profile: about Measuring".to_owned())
        );
        let measured = ("Profiled", "True", "Measured");
        assert_eq!(of(WaitFor::Profiled, &[serving, measured]), Progress::Done);
        // A server of another protocol stays as assumed.
        let other = ("Profiled", "False", "NotMeasurable");
        assert_eq!(of(WaitFor::Profiled, &[serving, other]), Progress::Done);
        // With a named profile there is no such condition.
        assert_eq!(of(WaitFor::Profiled, &[serving]), Progress::Done);
        let status = status(&[serving]);
        let unseen = progress(WaitFor::Serving, None, Some((&status, 3)));
        assert!(matches!(unseen, Progress::Going(_)));
    }

    #[test]
    fn states_that_wait_for_someone_end_the_wait() {
        for conditions in [
            &[("Ready", "False", "NoEngine")][..],
            &[
                ("Ready", "True", "Idle"),
                ("Profiled", "False", "JobFailed"),
            ],
            &[
                ("Ready", "False", "SloTooTight"),
                ("Profiled", "True", "Measured"),
                ("Feasible", "False", "SloTooTight"),
            ],
        ] {
            let progress = of(WaitFor::Profiled, conditions);
            assert!(matches!(progress, Progress::Stopped(..)), "{progress:?}");
        }
        // Before it is measured, an objective may only seem too tight.
        let early = of(
            WaitFor::Profiled,
            &[
                ("Ready", "False", "SloTooTight"),
                ("Profiled", "Unknown", "Measuring"),
                ("Feasible", "False", "SloTooTight"),
            ],
        );
        assert!(matches!(early, Progress::Going(_)), "{early:?}");
    }
}
