//! Jobs that measure, and their pods, as far as the operator needs them.

use std::net::IpAddr;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;

use crate::labels;
use crate::shown::shown;
use crate::state::Key;

/// Most bytes of a message.
const MESSAGE: usize = 512;

/// A Job with the label of a measured function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobRecord {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) version: String,
    /// Name of the function, by the label.
    pub(super) function: String,
    /// Uid of the function that controls it; `None` for a user's.
    pub(super) owner: Option<String>,
    /// Hash of what is measured, by the label.
    pub(super) content: String,
    /// The reason of its end without a result.
    pub(super) failed: Option<String>,
    pub(super) is_deleting: bool,
}

impl JobRecord {
    /// Parses a Job; returns `None` for one without the label.
    pub(crate) fn read(job: &Job) -> Option<Self> {
        let label = |name| job.labels().get(name).cloned();
        let mut owners = job.owner_references().iter();
        let owner = owners
            .find(|owner| owner.kind == "InferenceFunction" && owner.controller == Some(true));
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut ends = conditions.into_iter().flatten();
        // The profiler never ends by itself with a result: it waits until it was read.
        let ended = ends.find(|condition| {
            matches!(condition.type_.as_str(), "Failed" | "Complete") && condition.status == "True"
        });
        let reason = ended.map(|condition| {
            let reason = condition.reason.as_deref().unwrap_or(&condition.type_);
            match reason {
                "DeadlineExceeded" => "it did not end in time".to_owned(),
                "BackoffLimitExceeded" => "its pods failed".to_owned(),
                _ => shown(reason, 64),
            }
        });
        Some(Self {
            key: Key::new(job.namespace().unwrap_or_default(), job.name_any()),
            uid: job.uid().unwrap_or_default(),
            version: job.resource_version().unwrap_or_default(),
            function: label(labels::PROFILING)?,
            owner: owner.map(|owner| owner.uid.clone()),
            content: label(labels::MEASURED_CONTENT).unwrap_or_default(),
            failed: reason,
            is_deleting: job.metadata.deletion_timestamp.is_some(),
        })
    }
}

/// A pod of such a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPod {
    pub(super) key: Key,
    pub(super) function: String,
    /// Uid of the Job that controls it.
    pub(super) job: Option<String>,
    /// Its address while its container runs.
    pub(super) address: Option<IpAddr>,
    /// The reason that it does not run, or has failed.
    pub(super) message: Option<String>,
    /// True if it has failed.
    pub(super) is_failed: bool,
    /// Time of its creation, in seconds since the epoch.
    pub(super) created_s: i64,
}

impl RunPod {
    /// Parses a pod; returns `None` for one without the label.
    pub(crate) fn read(pod: &Pod) -> Option<Self> {
        let label = |name| pod.labels().get(name).cloned();
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let address = status.and_then(|status| status.pod_ip.as_deref()?.parse().ok());
        let lists =
            status.map(|status| [&status.init_container_statuses, &status.container_statuses]);
        let containers = lists.into_iter().flatten().flatten().flatten();
        let mut messages = containers.filter_map(message);
        let unscheduled = || {
            let conditions = status?.conditions.as_ref()?;
            let scheduled = conditions
                .iter()
                .find(|condition| condition.type_ == "PodScheduled")?;
            scheduled.message.clone()
        };
        let is_failed = phase == Some("Failed");
        let mut owners = pod.owner_references().iter();
        let job = owners.find(|owner| owner.kind == "Job" && owner.controller == Some(true));
        Some(Self {
            key: Key::new(pod.namespace().unwrap_or_default(), pod.name_any()),
            function: label(labels::PROFILING)?,
            job: job.map(|job| job.uid.clone()),
            address: address.filter(|_| phase == Some("Running")),
            message: messages
                .next()
                .or_else(|| status?.message.clone())
                .or_else(unscheduled)
                .map(|message| last_line(&message)),
            is_failed,
            created_s: pod
                .creation_timestamp()
                .map_or(0, |time| time.0.as_second()),
        })
    }
}

/// The reason that a container does not run.
fn message(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(ended) = state
        .terminated
        .as_ref()
        .filter(|ended| ended.exit_code != 0)
    {
        let text = ended.message.clone().filter(|text| !text.trim().is_empty());
        let reason = ended.reason.as_deref().unwrap_or("Error");
        let text = text.filter(|_| reason != "OOMKilled");
        return Some(text.unwrap_or_else(|| match reason {
            "OOMKilled" => {
                "the pod used more than its memory: raise spec.profiling.memory".to_owned()
            }
            _ => format!(
                "`{}` ended with code {} ({reason})",
                container.name, ended.exit_code
            ),
        }));
    }
    let waiting = state.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    if matches!(reason, "" | "PodInitializing" | "ContainerCreating") {
        return None;
    }
    let text = waiting.message.as_deref().unwrap_or_default();
    Some(format!("{reason}: {text}"))
}

/// The last line with any text: a container's message is the end of its log.
fn last_line(message: &str) -> String {
    let mut lines = message.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    // As the command begins it, on a terminal or in a log.
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let logged = line
        .split_once(" ERROR ")
        .and_then(|(_, rest)| rest.split_once(": "));
    shown(logged.map_or(line, |(_, text)| text), MESSAGE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: &serde_json::Value) -> RunPod {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {
                labels::PROFILING: "f", labels::MEASURED_CONTENT: "c"}},
            "status": status,
        });
        RunPod::read(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_pod_has_the_reason_that_it_does_not_run() {
        let container = |state: &serde_json::Value| {
            json!({"phase": "Failed", "containerStatuses": [{
                "name": "server", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            }]})
        };
        let ended = |reason: &str, message: &str| {
            container(&json!({"terminated": {"exitCode": 1, "reason": reason, "message": message}}))
        };
        for (status, expected) in [
            (
                ended("Error", "log\nerror: no such model\n"),
                "no such model",
            ),
            (
                ended("Error", "2026-01-01T00:00:00Z ERROR tetris: no room\n"),
                "no room",
            ),
            (ended("OOMKilled", "log"), "raise spec.profiling.memory"),
            (ended("Error", ""), "`server` ended with code 1 (Error)"),
            (
                container(
                    &json!({"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}),
                ),
                "ImagePullBackOff: no image",
            ),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}),
                "0/3 nodes",
            ),
        ] {
            let message = pod(&status).message.unwrap();
            assert!(message.contains(expected), "{message}");
        }
        let running = pod(&json!({"phase": "Running", "podIP": "10.0.0.7"}));
        assert_eq!(running.address.unwrap().to_string(), "10.0.0.7");
        assert_eq!(running.message, None);
    }

    #[test]
    fn a_job_has_the_reason_of_its_end() {
        let job = |conditions: serde_json::Value| {
            let job = json!({
                "metadata": {"name": "j", "namespace": "n", "labels": {labels::PROFILING: "f"}},
                "status": {"conditions": conditions},
            });
            JobRecord::read(&serde_json::from_value(job).unwrap()).unwrap()
        };
        let ended = |kind: &str, reason: &str| {
            job(json!([{"type": kind, "status": "True", "reason": reason}]))
        };
        assert_eq!(job(json!([])).failed, None);
        let late = ended("Failed", "DeadlineExceeded").failed;
        assert_eq!(late.as_deref(), Some("it did not end in time"));
        assert!(ended("Complete", "CompletionsReached").failed.is_some());
    }
}
