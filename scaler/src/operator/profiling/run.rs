//! Watches of Jobs that measure, questions to their pods, and the writes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    Api, ApiResource, DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use serde_json::Value;
use tetris_scaler_profiler::cli::{PROFILE_PATH, RunState};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::decide::{Action, Decision, Facts, decide};
use super::job::PORT;
use super::records::{JobRecord, RunPod};
use crate::labels;
use crate::operator::apply::{ApplyError, BackOff, within};
use crate::operator::cache::Cache;
use crate::operator::engines::Engines;
use crate::operator::outage::Outage;
use crate::operator::parts::{LEAST, Operator};
use crate::operator::profiling_state::ProfilingState;
use crate::operator::records::FunctionRecord;
use crate::operator::watches::Watches;
use crate::resources::ModelProfile;
use crate::state::Key;

/// Maximum number of objects of one answer.
const PAGE: u32 = 500;
/// Name of the PodTemplate with the profiler, in the operator's namespace.
const TEMPLATE: &str = "tetris-profiler";
/// Longest answer of a pod in bytes: some 8,000 objects.
const MAX_ANSWER: usize = 2 << 20;
/// Number of pods asked, and of functions written for, at once.
const AT_ONCE: usize = 8;
/// Interval between two passes while something is measured.
const PASS: Duration = Duration::from_secs(2);
/// Time for the watches to see what was written for a function.
const SETTLE: Duration = Duration::from_secs(3);

/// States of measurements by function. Clones share them.
#[derive(Debug, Clone, Default)]
pub(in crate::operator) struct MeasurementStates(Arc<Mutex<BTreeMap<Key, ProfilingState>>>);

impl MeasurementStates {
    /// Returns the state of a function's measurement; `None` for one that names its profile.
    pub(in crate::operator) fn get(&self, function: &Key) -> Option<ProfilingState> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(function).cloned()
    }

    /// Takes in all states. Returns true if a reason differs.
    fn set(&self, now: BTreeMap<Key, ProfilingState>) -> bool {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons = |states: &BTreeMap<Key, ProfilingState>| -> Vec<(Key, &'static str)> {
            let reasons = states.iter();
            reasons
                .map(|(key, state)| (key.clone(), state.reason))
                .collect()
        };
        let differs = reasons(&states) != reasons(&now);
        *states = now;
        differs
    }
}

/// Caches of what only measurements have.
#[derive(Debug, Clone, Default)]
struct Caches {
    jobs: Cache<JobRecord>,
    pods: Cache<RunPod>,
    templates: Cache<Value>,
}

/// State of the operator that measurements need.
#[derive(Clone, Copy)]
pub(in crate::operator) struct Surroundings<'a> {
    /// Functions, profiles and nodes.
    pub(in crate::operator) watches: &'a Watches,
    /// Engines and models.
    pub(in crate::operator) engines: &'a Engines,
    /// States of measurements, to set.
    pub(in crate::operator) states: &'a MeasurementStates,
    /// Notified when the reason of a state differs.
    pub(in crate::operator) changed: &'a Notify,
}

/// Measures functions that name no profile, for ever.
pub(in crate::operator) async fn follow(operator: &Operator, around: Surroundings<'_>) {
    let changed = Notify::new();
    let caches = Caches::default();
    let mut measurements = Measurements {
        operator,
        waiting: BackOff::default(),
        settling: BTreeMap::new(),
        answers: BTreeMap::new(),
    };
    let passes = async {
        loop {
            let wait = if measurements.answers.is_empty() {
                operator.options.interval
            } else {
                PASS
            };
            drop(timeout(wait, changed.notified()).await);
            if operator.leadership.leads() {
                measurements.ask(&caches).await;
                measurements.pass(&caches, around).await;
            }
            sleep(LEAST).await;
        }
    };
    tokio::select! {
        () = caches.run(operator, &changed) => tracing::error!("a watch of measurements has ended"),
        () = passes => {}
    }
}

impl Caches {
    async fn run(&self, operator: &Operator, changed: &Notify) {
        let client = &operator.client;
        let labeled = || Config::default().page_size(PAGE).labels(labels::PROFILING);
        let named = Config::default().fields(&format!("metadata.name={TEMPLATE}"));
        let outage = |kind| Outage::new(kind, &operator.metrics);
        let jobs = watcher(Api::<Job>::all(client.clone()), labeled()).default_backoff();
        let pods = watcher(Api::<Pod>::all(client.clone()), labeled()).default_backoff();
        let templates = Api::<PodTemplate>::namespaced(client.clone(), &operator.options.namespace);
        let templates = watcher(templates, named).default_backoff();
        let template = |template: PodTemplate| serde_json::to_value(template.template?).ok();
        tokio::join!(
            self.jobs
                .follow(jobs, |job| JobRecord::read(&job), changed, outage("jobs")),
            self.pods.follow(
                pods,
                |pod| RunPod::read(&pod),
                changed,
                outage("pods of jobs")
            ),
            self.templates.follow(
                templates,
                template,
                changed,
                outage("podtemplates of the profiler")
            ),
        );
    }
}

/// Measurements, with what is remembered between passes.
struct Measurements<'a> {
    operator: &'a Operator,
    waiting: BackOff,
    /// Functions with new writes, until the watches have seen these.
    settling: BTreeMap<Key, Instant>,
    /// Last answers of pods.
    answers: BTreeMap<Key, RunState>,
}

impl Measurements<'_> {
    /// Asks the pods that run.
    async fn ask(&mut self, caches: &Caches) {
        let pods = caches.pods.all().unwrap_or_default();
        let running: BTreeSet<&Key> = pods
            .values()
            .filter(|pod| pod.address.is_some())
            .map(|pod| &pod.key)
            .collect();
        self.answers.retain(|pod, _| running.contains(pod));
        let client = &self.operator.pods;
        let asked = pods.values().filter_map(|pod| {
            let address = SocketAddr::new(pod.address?, PORT);
            Some(async move {
                let body = client.get(address, PROFILE_PATH, MAX_ANSWER).await;
                let body = body.map_err(|problem| problem.to_string());
                let state = body.and_then(|body| {
                    serde_json::from_slice(&body).map_err(|error| error.to_string())
                });
                (pod.key.clone(), state)
            })
        });
        let answers: Vec<(Key, Result<RunState, String>)> = futures::stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (pod, answer) in answers {
            match answer {
                Ok(state) => drop(self.answers.insert(pod, state)),
                Err(problem) => tracing::debug!(%pod, problem, "no answer of the profiler"),
            }
        }
    }

    async fn pass(&mut self, caches: &Caches, around: Surroundings<'_>) {
        let Some(due) = self.due(caches, around) else {
            return;
        };
        let states = due
            .iter()
            .map(|(record, decision)| (record.key.clone(), decision.state.clone()));
        if around.states.set(states.collect()) {
            around.changed.notify_one();
        }
        let now = Instant::now();
        let keys: BTreeSet<&Key> = due.iter().map(|(record, _)| &record.key).collect();
        self.waiting.retain(|key| keys.contains(key));
        self.settling.retain(|_, since| since.elapsed() < SETTLE);
        let this = &*self;
        let writes = due.iter().filter(|(record, decision)| {
            let is_due = this.waiting.is_due(&record.key, now);
            !decision.actions.is_empty() && is_due && !this.settling.contains_key(&record.key)
        });
        let writes = writes.map(|(record, decision)| async move {
            (record.key.clone(), this.carry_out(decision).await)
        });
        let done: Vec<_> = futures::stream::iter(writes)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (key, done) in done {
            match done {
                Ok(()) => {
                    self.waiting.succeeded(&key);
                    self.settling.insert(key, now);
                }
                Err(error) if error.is_harmless() => tracing::debug!(function = %key, "{error}"),
                Err(error) => {
                    tracing::warn!(function = %key, "{error}");
                    self.operator.metrics.failed(error.class());
                    around.states.report(&key, &error);
                    self.waiting.failed(key);
                }
            }
        }
    }

    /// Decisions by function; `None` before all lists are complete.
    fn due(
        &self,
        caches: &Caches,
        around: Surroundings<'_>,
    ) -> Option<Vec<(Arc<FunctionRecord>, Decision)>> {
        let watches = around.watches;
        let (functions, profiles) = (watches.functions.all()?, watches.profiles.all()?);
        let (nodes, jobs, pods) = (watches.nodes.all()?, caches.jobs.all()?, caches.pods.all()?);
        let templates = caches.templates.all()?;
        let engines = around.engines.latest();
        let due = functions.values().filter_map(|record| {
            let function = record.function.as_ref().ok()?;
            let profiling = function.profiling.as_ref()?;
            if record.is_deleting {
                return None;
            }
            let resolved = engines.template(function, |_| false)?;
            let model = function.model.as_ref();
            let model = model.map(|model| Key::new(function.namespace.clone(), model.clone()));
            let decision = decide(&Facts {
                record,
                function,
                profiling,
                template: resolved.template,
                other_protocol: resolved.other_protocol.as_deref(),
                model: model.and_then(|model| engines.models.get(&model)),
                installer: templates.values().next().map(Arc::as_ref),
                profiles: &profiles,
                jobs: &jobs,
                pods: &pods,
                answers: &self.answers,
                nodes: &nodes,
                now: Timestamp::now(),
            });
            Some((Arc::clone(record), decision))
        });
        Some(due.collect())
    }

    /// Executes the writes for a function, in their order.
    async fn carry_out(&self, decision: &Decision) -> Result<(), ApplyError> {
        for action in &decision.actions {
            within(&self.operator.leadership, self.act(action)).await?;
        }
        Ok(())
    }

    async fn act(&self, action: &Action) -> Result<(), ApplyError> {
        let client = self.operator.client.clone();
        let by_us = PatchParams::apply(labels::MANAGER).force();
        let (kind, key, written) = match action {
            Action::WriteProfile { key, object } => {
                let resource = ApiResource::erase::<ModelProfile>(&());
                let api = Api::<DynamicObject>::namespaced_with(client, &key.namespace, &resource);
                let written = api.patch(&key.name, &by_us, &Patch::Apply(object)).await;
                ("ModelProfile", key, written.map(drop))
            }
            Action::CreateJob { key, object } => {
                let api = Api::<Job>::namespaced(client, &key.namespace);
                let written = api.patch(&key.name, &by_us, &Patch::Apply(object)).await;
                ("Job", key, written.map(drop))
            }
            Action::DeleteJob { key, uid, version } => {
                let api = Api::<Job>::namespaced(client, &key.namespace);
                let parameters = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Background),
                    preconditions: Some(Preconditions {
                        resource_version: Some(version.clone()),
                        uid: Some(uid.clone()),
                    }),
                    ..DeleteParams::default()
                };
                let deleted = match api.delete(&key.name, &parameters).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    deleted => deleted.map(drop),
                };
                ("Job", key, deleted)
            }
        };
        written.map_err(|error| ApplyError::of(kind, key, error))?;
        self.operator.metrics.wrote(match action {
            Action::WriteProfile { .. } => "profile",
            Action::CreateJob { .. } => "job",
            Action::DeleteJob { .. } => "delete",
        });
        Ok(())
    }
}

impl MeasurementStates {
    /// Notes that a write for a function failed.
    fn report(&self, function: &Key, error: &ApplyError) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let message: String = error.to_string().chars().take(1_000).collect();
        let state = ProfilingState::failed("WriteFailed", message);
        states.insert(function.clone(), state);
    }
}
