//! Writes due for the measurement of a function. Purely.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tetris_scaler_profiler::cli::RunState;

use super::assumed::assumed;
use super::job::{Job, JobInput, job, profile_metadata};
use super::records::{JobRecord, RunPod};
use crate::labels;
use crate::operator::engines::{EngineProblem, ServedModel};
use crate::operator::profiling_state::{NOT_MEASURABLE, ProfilingState};
use crate::operator::records::{FunctionRecord, NodeRecord, ProfileRecord};
use crate::resources::{
    CheckedFunction, CheckedProfiling, CheckedTemplate, ModelProfile, ModelProfileSpec,
};
use crate::state::Key;

/// Numbers of CPUs to measure by default.
const CPUS: [u32; 3] = [1, 2, 4];
/// Time for which a function is slower than its profile before it is measured again, in seconds.
const SLOWER_FOR_S: i64 = 600;
/// Least age of a profile before another measurement, in seconds.
const LEAST_AGE_S: i64 = 6 * 3_600;

/// A write for the measurement of a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Writes the function's profile.
    WriteProfile { key: Key, object: Value },
    /// Makes a Job.
    CreateJob { key: Key, object: Value },
    /// Deletes a Job and its pods.
    DeleteJob {
        key: Key,
        uid: String,
        version: String,
    },
}

/// Knowledge when a function's measurement is decided on.
pub(super) struct Facts<'a> {
    pub(super) record: &'a FunctionRecord,
    pub(super) function: &'a CheckedFunction,
    pub(super) profiling: &'a CheckedProfiling,
    /// Template of its pods, or the reason that there is none.
    pub(super) template: Result<Arc<CheckedTemplate>, EngineProblem>,
    /// Protocol of its server, if it is not the Open Inference Protocol.
    pub(super) other_protocol: Option<&'a str>,
    /// Its Model, if it names one.
    pub(super) model: Option<&'a ServedModel>,
    /// Pod template with the container that copies the profiler.
    pub(super) installer: Option<&'a Value>,
    /// All profiles.
    pub(super) profiles: &'a BTreeMap<Key, Arc<ProfileRecord>>,
    /// All Jobs that measure.
    pub(super) jobs: &'a BTreeMap<Key, Arc<JobRecord>>,
    /// All pods of these.
    pub(super) pods: &'a BTreeMap<Key, Arc<RunPod>>,
    /// Last answers of pods.
    pub(super) answers: &'a BTreeMap<Key, RunState>,
    pub(super) nodes: &'a BTreeMap<Key, Arc<NodeRecord>>,
    pub(super) now: Timestamp,
}

/// Due writes, and the state of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    pub(super) actions: Vec<Action>,
    pub(super) state: ProfilingState,
}

/// The writes due for a function, in their order.
pub(super) fn decide(facts: &Facts<'_>) -> Decision {
    let only = |state| Decision {
        actions: Vec::new(),
        state,
    };
    if let Some(profile) = facts.profile()
        && profile.function.as_ref() != Some(&facts.function.name)
    {
        let message = format!(
            "the ModelProfile {0:?} is not the operator's, and is used as it is; name it in spec.profile",
            facts.function.profile
        );
        return only(ProfilingState::measured(message));
    }
    let template = match &facts.template {
        Ok(template) => template,
        Err(problem) => {
            return only(ProfilingState::under_way(
                problem.reason(),
                problem.to_string(),
            ));
        }
    };
    let mut actions = Vec::new();
    if facts.profile().is_none() {
        actions.push(facts.write(None, &facts.assumed(template)));
    }
    let (due, state) = facts.measurement(template);
    actions.extend(due);
    Decision { actions, state }
}

impl Facts<'_> {
    fn profile(&self) -> Option<&ProfileRecord> {
        let function = self.function;
        let key = Key::new(function.namespace.clone(), function.profile.clone());
        self.profiles.get(&key).map(Arc::as_ref)
    }

    fn assumed(&self, template: &CheckedTemplate) -> ModelProfileSpec {
        let description = self.model.and_then(|model| model.description.as_ref());
        let bytes = description.map_or(0, |description| description.bytes);
        assumed(self.function, template, bytes)
    }

    /// Writes for Jobs and measured profiles, and the state.
    fn measurement(&self, template: &CheckedTemplate) -> (Vec<Action>, ProfilingState) {
        let none = Vec::new;
        let speaks_openai = self.other_protocol == Some("openai");
        if let Some(protocol) = self.other_protocol.filter(|_| !speaks_openai) {
            let message = format!(
                "the profiler speaks the Open Inference Protocol and OpenAI's, and the engine speaks {protocol}: the function keeps what its template requests; name a measured profile in spec.profile, if there is one"
            );
            return (none(), ProfilingState::failed(NOT_MEASURABLE, message));
        }
        let description = self.model.and_then(|model| model.description.as_ref());
        if self.function.model.is_some() && description.is_none() {
            let message = "no node has the function's model yet: see `kubectl get models`";
            return (
                none(),
                ProfilingState::under_way("ModelNotPresent", message),
            );
        }
        let Some(installer) = self.installer else {
            let message = "there is no PodTemplate `tetris-profiler` in the operator's namespace; apply deploy/base/scaler";
            return (none(), ProfilingState::failed("NoProfiler", message));
        };
        let cpus = self.default_cpus();
        let machine = self.machine();
        let input = JobInput {
            function: self.function,
            uid: &self.record.uid,
            profiling: self.profiling,
            template,
            installer,
            model_content: description.map(|description| description.content.as_str()),
            speaks_openai,
            default_cpus: &cpus,
            machine: machine.as_deref(),
        };
        let job = match job(&input) {
            Ok(job) => job,
            Err(problem) => {
                return (
                    none(),
                    ProfilingState::failed("NoCommand", problem.to_string()),
                );
            }
        };
        let mut actions: Vec<Action> = self
            .jobs()
            .filter(|present| present.content != job.content)
            .map(delete)
            .collect();
        let current = self.profile().filter(|profile| {
            profile.content.as_deref() == Some(&job.content) && profile.profile.is_ok()
        });
        let is_slower = current.is_some_and(|profile| self.is_slower(profile));
        if let (Some(profile), false) = (current, is_slower) {
            actions.extend(
                self.jobs()
                    .filter(|entry| entry.content == job.content)
                    .map(delete),
            );
            return (actions, measured(profile));
        }
        if current.is_none()
            && let Some(known) = self.known(&job.content)
        {
            actions.push(self.write(Some(&job.content), &known.spec));
            let message = format!("as measured for {}", known.function);
            return (actions, ProfilingState::measured(message));
        }
        let state = self.run(&job, &mut actions);
        match current {
            // The profile of before holds meanwhile.
            Some(_) => (
                actions,
                ProfilingState::measured(format!(
                    "slower than profiled, so it is measured again: {}",
                    state.message
                )),
            ),
            None => (actions, state),
        }
    }

    /// Follows the Job, or makes it.
    fn run(&self, job: &Job, actions: &mut Vec<Action>) -> ProfilingState {
        let namespace = &self.function.namespace;
        let key = Key::new(namespace.clone(), job.name.clone());
        let Some(present) = self.jobs().find(|present| present.content == job.content) else {
            if self.jobs.contains_key(&key) {
                let message = format!("Job {key} is not the operator's; rename or delete it");
                return ProfilingState::failed("ForeignJob", message);
            }
            actions.push(Action::CreateJob {
                key,
                object: job.object.clone(),
            });
            return ProfilingState::under_way("Starting", "the Job is being made");
        };
        let pods = self.pods.values().map(Arc::as_ref);
        let mut pods: Vec<&RunPod> = pods
            .filter(|pod| {
                pod.key.namespace == *namespace
                    && pod.function == self.function.name
                    && pod.job.as_ref() == Some(&present.uid)
            })
            .collect();
        pods.sort_by_key(|pod| (pod.created_s, &pod.key));
        let last = pods.last();
        let message = last.and_then(|pod| pod.message.clone());
        if let Some(reason) = &present.failed {
            let message = message.unwrap_or_else(|| "its pods are gone".to_owned());
            let message = format!(
                "Job {key} ended without a profile: {reason}: {message}; it is tried again half an hour later, or once it is deleted"
            );
            return ProfilingState::failed("JobFailed", message);
        }
        let Some(pod) = last else {
            return ProfilingState::under_way("Starting", format!("Job {key} has no pod yet"));
        };
        match self.answers.get(&pod.key) {
            Some(RunState::Measuring { done, of, step }) => ProfilingState::under_way(
                "Measuring",
                format!("{done} of {of} configurations: {step}"),
            ),
            Some(RunState::Measured { profile, failures }) => match self.checked(profile) {
                Ok(spec) => {
                    actions.push(self.write(Some(&job.content), &spec));
                    actions.push(delete(present));
                    let count = spec.configurations.len();
                    let message = match failures {
                        0 => format!("{count} configurations"),
                        _ => format!("{count} configurations, and {failures} failed"),
                    };
                    ProfilingState::measured(message)
                }
                Err(problem) => ProfilingState::failed(
                    "InvalidResult",
                    format!("the profiler of Job {key} answered with {problem}"),
                ),
            },
            None if pod.is_failed => ProfilingState::under_way(
                "Starting",
                format!("a pod failed: {}", message.unwrap_or_default()),
            ),
            None => {
                let message = message.unwrap_or_else(|| "the pod starts".to_owned());
                ProfilingState::under_way("Starting", message)
            }
        }
    }

    /// Checks a result, and returns it as a resource.
    fn checked(
        &self,
        profile: &tetris_scaler_profiler::ModelProfileSpec,
    ) -> Result<ModelProfileSpec, String> {
        let document = serde_json::to_value(profile).map_err(|error| error.to_string())?;
        let spec: ModelProfileSpec =
            crate::resources::parse(document).map_err(|problem| problem.to_string())?;
        let resource = ModelProfile::new(&self.function.profile, spec);
        resource.checked().map_err(|problem| problem.to_string())?;
        Ok(resource.spec)
    }

    /// Writes the profile: a measured one with its content, else an assumed one.
    fn write(&self, content: Option<&str>, spec: &ModelProfileSpec) -> Action {
        let machine = self.machine();
        let measured = content.map(|content| (content, machine.as_deref()));
        let function = self.function;
        let key = Key::new(function.namespace.clone(), function.profile.clone());
        let object = json!({
            "apiVersion": <ModelProfile as kube::Resource>::api_version(&()),
            "kind": <ModelProfile as kube::Resource>::kind(&()),
            "metadata": profile_metadata(function, &self.record.uid, measured),
            "spec": spec,
        });
        Action::WriteProfile { key, object }
    }

    /// The function's own Jobs.
    fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        let jobs = self.jobs.values().map(Arc::as_ref);
        jobs.filter(|job| {
            job.key.namespace == self.function.namespace
                && job.function == self.function.name
                && job.owner.as_ref() == Some(&self.record.uid)
                && !job.is_deleting
        })
    }

    /// A measured profile of the same content, of another function of the namespace.
    fn known(&self, content: &str) -> Option<Known> {
        let profiles = self.profiles.values();
        let mut equal = profiles.filter(|profile| {
            profile.key.namespace == self.function.namespace
                && profile.key.name != self.function.profile
                && profile.content.as_deref() == Some(content)
        });
        equal.find_map(|profile| {
            let mut spec = profile.spec.as_deref()?.clone();
            spec.model = super::assumed::model_name(self.function);
            let function = profile.function.clone().unwrap_or_default();
            Some(Known { function, spec })
        })
    }

    /// Returns true if the function has been slower than its profile for long, and the profile is old enough.
    fn is_slower(&self, profile: &ProfileRecord) -> bool {
        let mut conditions = self.record.status.conditions.iter();
        let slower = conditions.find(|condition| {
            condition.r#type == "AsProfiled"
                && condition.status == "False"
                && condition.reason == "SlowerThanProfiled"
        });
        let age = |text: &str| -> Option<i64> {
            let since: Timestamp = text.parse().ok()?;
            Some(self.now.as_second() - since.as_second())
        };
        let slower_for = slower.and_then(|condition| age(&condition.last_transition_time));
        let measured = profile
            .spec
            .as_ref()
            .and_then(|spec| spec.measured.as_ref());
        let measured = measured.and_then(|measured| age(measured.at.as_deref()?));
        slower_for.is_some_and(|age| age >= SLOWER_FOR_S)
            && measured.is_none_or(|age| age >= LEAST_AGE_S)
    }

    /// Numbers of CPUs up to half of the largest node's, so that the clients have others.
    fn default_cpus(&self) -> Vec<u32> {
        let nodes = self.nodes.values().filter(|node| node.accepts_new);
        let largest = nodes.map(|node| node.allocatable.cpu_millis).max();
        let half = largest.unwrap_or(0) / 2_000;
        let fitting = CPUS
            .into_iter()
            .filter(|cpus| u64::from(*cpus) <= half.max(1));
        fitting.collect()
    }

    /// The type of the machine: as measured, while there are such nodes. Else that of most nodes that have the model, of
    /// equally many the first by name.
    fn machine(&self) -> Option<String> {
        let nodes = || self.nodes.values().filter(|node| node.accepts_new);
        let of = |node: &NodeRecord| node.labels.get(labels::MACHINE).cloned();
        let measured = self.profile().and_then(|profile| profile.machine.clone());
        if measured.is_some() && nodes().any(|node| of(node) == measured) {
            return measured;
        }
        let has_model = |node: &NodeRecord| {
            let model = self.model.as_ref();
            model.is_none_or(|model| model.nodes.contains(&node.name))
        };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for node in nodes().filter(|node| has_model(node)) {
            if let Some(machine) = of(node) {
                *counts.entry(machine).or_default() += 1;
            }
        }
        let most = counts
            .iter()
            .max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)));
        most.map(|(machine, _)| machine.clone())
    }
}

/// A measured profile of another function.
struct Known {
    function: String,
    spec: ModelProfileSpec,
}

fn measured(profile: &ProfileRecord) -> ProfilingState {
    let spec = profile.spec.as_ref();
    let count = spec.map_or(0, |spec| spec.configurations.len());
    let at = spec.and_then(|spec| spec.measured.as_ref()?.at.clone());
    let at = at.map_or_else(String::new, |at| format!(", at {at}"));
    ProfilingState::measured(format!("{count} configurations{at}"))
}

fn delete(job: &JobRecord) -> Action {
    Action::DeleteJob {
        key: job.key.clone(),
        uid: job.uid.clone(),
        version: job.version.clone(),
    }
}
