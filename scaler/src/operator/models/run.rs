//! Watches of models, and the writes for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    Api, ApiResource, DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher::{Config, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::decide::{Action, Facts, decide};
use super::describe::{Asked, Descriptions};
use super::ordered::OrderedModels;
use super::records::{KeeperPod, ModelRecord, ServerRecord};
use super::server::server;
use crate::labels;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::nodes::Inventories;
use crate::operator::apply::{ApplyError, BackOff, within};
use crate::operator::cache::Cache;
use crate::operator::engines::{EngineTemplate, Engines, KnownEngines, ServedModel};
use crate::operator::outage::Outage;
use crate::operator::parts::{LEAST, Operator};
use crate::operator::watches::Watches;
use crate::resources::{Model, ModelDescription, ModelSpec, ModelStatus};
use crate::state::Key;

/// Maximum number of objects of one answer.
const PAGE: u32 = 500;
/// Name of the PodTemplate, in the operator's namespace.
const TEMPLATE: &str = "tetris-model";
/// The right to write that a namespace grants for its models.
const ROLE: &str = "tetris-scaler-models";
/// Number of models written concurrently.
const AT_ONCE: usize = 8;

/// Caches of what only models have.
#[derive(Debug, Clone, Default)]
struct ModelWatches {
    models: Cache<ModelRecord>,
    servers: Cache<ServerRecord>,
    pods: Cache<KeeperPod>,
    templates: Cache<Value>,
    engines: Cache<EngineTemplate>,
}

/// State of the operator that models need.
#[derive(Clone, Copy)]
pub(in crate::operator) struct Surroundings<'a> {
    /// Functions and nodes of the cluster.
    pub(in crate::operator) watches: &'a Watches,
    /// Reports of the daemons.
    pub(in crate::operator) inventories: &'a Mutex<Inventories>,
    /// Nodes of models, to set.
    pub(in crate::operator) ordered: &'a OrderedModels,
    /// Engines and models, to set.
    pub(in crate::operator) engines: &'a Engines,
    /// Notified when engines or models differ.
    pub(in crate::operator) changed: &'a Notify,
}

/// Looks after models for ever.
pub(in crate::operator) async fn follow(operator: &Operator, around: Surroundings<'_>) {
    let changed = Notify::new();
    let caches = ModelWatches::default();
    let mut applier = ModelApplier::new(operator);
    let mut descriptions = Descriptions::default();
    let passes = async {
        loop {
            drop(timeout(operator.options.interval, changed.notified()).await);
            around.ordered.set(caches.ordered());
            if let Some(known) = caches.known_engines(&descriptions)
                && around.engines.set(known)
            {
                around.changed.notify_one();
            }
            if operator.leadership.leads()
                && let Some(due) = due(&caches, around, &descriptions)
            {
                applier.carry_out(due).await;
            }
            if let Some(models) = caches.models.all() {
                descriptions.retain(|model| models.contains_key(model));
            }
            let asked = caches.undescribed(&descriptions);
            if descriptions.ask(&operator.pods, asked).await {
                changed.notify_one();
            }
            tokio::time::sleep(LEAST).await;
        }
    };
    tokio::select! {
        () = caches.run(operator, &changed) => tracing::error!("a watch of models has ended"),
        () = passes => {}
    }
}

impl ModelWatches {
    /// Nodes that models are given, by their DaemonSets.
    fn ordered(&self) -> BTreeMap<Key, Option<BTreeSet<String>>> {
        let servers = self.servers.all().unwrap_or_default();
        let mut ordered = BTreeMap::new();
        for server in servers.values().filter(|server| server.owner.is_some()) {
            let model = Key::new(server.key.namespace.clone(), server.model.clone());
            let nodes = ordered
                .entry(model)
                .or_insert_with(|| Some(BTreeSet::new()));
            match (nodes.as_mut(), &server.nodes) {
                (Some(all), Some(more)) => all.extend(more.iter().cloned()),
                _ => *nodes = None,
            }
        }
        ordered
    }

    /// Returns the template of pods that keep models.
    fn template(&self) -> Option<Arc<Value>> {
        self.templates.all()?.values().next().cloned()
    }

    /// Engines, and models with their descriptions; `None` before all lists are complete.
    fn known_engines(&self, descriptions: &Descriptions) -> Option<KnownEngines> {
        let (models, engines, pods) = (self.models.all()?, self.engines.all()?, self.pods.all()?);
        let nodes = |record: &ModelRecord, source: &str| {
            let present = pods.values().filter(|pod| pod.has(&record.key, source));
            present.map(|pod| pod.node.clone()).collect()
        };
        let template = self.template();
        let described = |record: &ModelRecord| {
            let spec = record.spec.as_ref().ok()?;
            let source = source_hash(record, template.as_deref()?)?;
            let served = ServedModel {
                account: spec.service_account_name.clone(),
                nodes: nodes(record, &source),
                description: description(record, &source, descriptions),
            };
            Some((record.key.clone(), served))
        };
        let named = |engine: &Arc<EngineTemplate>| (engine.name.clone(), Arc::clone(engine));
        Some(KnownEngines {
            engines: engines.values().map(named).collect(),
            models: models
                .values()
                .filter_map(|record| described(record))
                .collect(),
        })
    }

    /// Pods to ask for the descriptions of their models.
    fn undescribed(&self, descriptions: &Descriptions) -> Vec<Asked> {
        let (models, pods) = (self.models.all(), self.pods.all());
        let (Some(models), Some(pods), Some(template)) = (models, pods, self.template()) else {
            return Vec::new();
        };
        let asked = models.values().filter_map(|record| {
            let source = source_hash(record, &template)?;
            if description(record, &source, descriptions).is_some() {
                return None;
            }
            let mut present = pods.values().filter(|pod| pod.has(&record.key, &source));
            Some(Asked {
                address: present.find_map(|pod| pod.address)?,
                model: record.key.clone(),
                source_hash: source,
            })
        });
        asked.collect()
    }

    async fn run(&self, operator: &Operator, changed: &Notify) {
        let client = &operator.client;
        let config = || Config::default().page_size(PAGE);
        let labeled = || config().labels(labels::MODEL);
        let outage = |kind| Outage::new(kind, &operator.metrics);
        let models: Api<DynamicObject> =
            Api::all_with(client.clone(), &ApiResource::erase::<Model>(&()));
        let servers = Api::<DaemonSet>::all(client.clone());
        let pods = Api::<Pod>::all(client.clone());
        let templates = Api::<PodTemplate>::namespaced(client.clone(), &operator.options.namespace);
        let named = config().fields(&format!("metadata.name={TEMPLATE}"));
        let engines = templates.clone();
        tokio::join!(
            self.models.follow(
                watcher(models, config()).default_backoff(),
                |model| Some(ModelRecord::read(model)),
                changed,
                outage("models"),
            ),
            self.servers.follow(
                watcher(servers, labeled()).default_backoff(),
                |server| ServerRecord::read(&server),
                changed,
                outage("daemonsets"),
            ),
            self.pods.follow(
                watcher(pods, labeled()).default_backoff(),
                |pod| KeeperPod::read(&pod),
                changed,
                outage("pods of models"),
            ),
            self.templates.follow(
                watcher(templates, named).default_backoff(),
                |template| template_of(&template),
                changed,
                outage("podtemplates"),
            ),
            self.engines.follow(
                watcher(engines, config().labels(labels::ENGINE)).default_backoff(),
                |engine| EngineTemplate::read(&engine),
                changed,
                outage("podtemplates of engines"),
            ),
        );
    }
}

/// The pods of a template; `None` for one without a container.
fn template_of(template: &PodTemplate) -> Option<Value> {
    let pods = serde_json::to_value(template.template.as_ref()?).ok()?;
    pods.pointer("/spec/containers/0")?;
    Some(pods)
}

/// Hash of a model's source, as its DaemonSet and pods have it.
fn source_hash(record: &ModelRecord, template: &Value) -> Option<String> {
    let spec = record.spec.as_ref().ok()?;
    Some(server(record, spec, template, None).content)
}

/// The description of a model of this source, as it was read or written last.
fn description(
    record: &ModelRecord,
    source_hash: &str,
    descriptions: &Descriptions,
) -> Option<ModelDescription> {
    let written = record.status.description.as_ref();
    let written = written.filter(|written| written.source_hash == source_hash);
    let description = descriptions.get(&record.key, source_hash).or(written);
    description.cloned()
}

/// A model with its writes.
struct Due {
    record: Arc<ModelRecord>,
    actions: Vec<Action>,
}

/// Writes due for each model; `None` before all lists are complete.
fn due(
    caches: &ModelWatches,
    around: Surroundings<'_>,
    descriptions: &Descriptions,
) -> Option<Vec<Due>> {
    let (watches, tensors) = (around.watches, around.ordered.tensors());
    let (models, servers, pods) = (
        caches.models.all()?,
        caches.servers.all()?,
        caches.pods.all()?,
    );
    caches.templates.all()?;
    let template = caches.template();
    let (nodes, functions) = (watches.nodes.all()?, watches.functions.all()?);
    let (deployments, instances) = (watches.deployments.all()?, watches.pods.all()?);
    let inventories = around.inventories.lock();
    let kept = inventories
        .unwrap_or_else(PoisonError::into_inner)
        .kept
        .clone();
    // Nodes by namespace and name of the model.
    let mut of_functions: BTreeMap<Key, BTreeSet<&str>> = BTreeMap::new();
    let model_of = |namespace: &str, function: &str| {
        let record = functions.get(&Key::new(namespace, function))?;
        let function = record.function.as_ref().ok()?;
        Some(Key::new(namespace, function.model.clone()?))
    };
    for deployment in deployments.values() {
        let planned = deployment.planned.iter().filter(|(_, count)| **count > 0);
        if let Some(model) = model_of(&deployment.key.namespace, &deployment.function) {
            let nodes = of_functions.entry(model).or_default();
            nodes.extend(planned.map(|(node, _)| node.as_str()));
        }
    }
    for pod in instances.values().filter(|pod| !pod.node.is_empty()) {
        let instance = pod.instance.as_ref();
        if let Some(model) =
            instance.and_then(|instance| model_of(&pod.key.namespace, &instance.function))
        {
            of_functions.entry(model).or_default().insert(&pod.node);
        }
    }
    let template = template.as_deref();
    let missing = format!(
        "there is no PodTemplate `{TEMPLATE}` with a container in the operator's namespace; apply deploy/base/scaler"
    );
    let resident = |record: &ModelRecord| {
        // Of others, all nodes or those of the plan have it.
        let spec = record.spec.as_ref().ok();
        let is_chosen = spec.is_some_and(|spec| spec.nodes.count.is_some());
        if is_chosen {
            tensors.resident(&record.key)
        } else {
            BTreeMap::new()
        }
    };
    let due = models.values().map(|record| {
        let source = template.and_then(|template| source_hash(record, template));
        let facts = Facts {
            record,
            description: source.and_then(|source| description(record, &source, descriptions)),
            template: template.ok_or(&missing),
            servers: &servers,
            pods: &pods,
            nodes: &nodes,
            of_functions: of_functions.get(&record.key).cloned().unwrap_or_default(),
            resident: resident(record),
            kept: &kept,
            now: Timestamp::now(),
        };
        Due {
            record: Arc::clone(record),
            actions: decide(&facts),
        }
    });
    Some(due.collect())
}

/// Writes for models while this replica leads.
struct ModelApplier {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    waiting: BackOff,
}

impl ModelApplier {
    fn new(operator: &Operator) -> Self {
        let reporter = Reporter::from(labels::MANAGER);
        Self {
            client: operator.client.clone(),
            recorder: Recorder::new(operator.client.clone(), reporter),
            leadership: operator.leadership.clone(),
            metrics: Arc::clone(&operator.metrics),
            waiting: BackOff::default(),
        }
    }

    async fn carry_out(&mut self, due: Vec<Due>) {
        let now = Instant::now();
        let models: BTreeSet<&Key> = due.iter().map(|due| &due.record.key).collect();
        self.waiting.retain(|key| models.contains(key));
        let this = &*self;
        let is_due =
            |due: &Due| !due.actions.is_empty() && this.waiting.is_due(&due.record.key, now);
        let writes = due.into_iter().filter(is_due).map(|due| async move {
            let done = this.model(&due).await;
            (due.record.key.clone(), done)
        });
        let done: Vec<_> = futures::stream::iter(writes)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (key, done) in done {
            match done {
                Ok(()) => self.waiting.succeeded(&key),
                Err(error) if error.is_harmless() => tracing::debug!(model = %key, "{error}"),
                Err(error) => {
                    tracing::warn!(model = %key, "{error}");
                    self.metrics.failed(error.class());
                    self.waiting.failed(key);
                }
            }
        }
    }

    /// Executes the writes for a model, in their order. One that fails is reported in its status.
    async fn model(&self, due: &Due) -> Result<(), ApplyError> {
        for action in &due.actions {
            let written = within(&self.leadership, self.act(&due.record, action)).await;
            let Err(error) = written else { continue };
            if !error.is_harmless() && !matches!(action, Action::Status(_)) {
                self.report_failure(&due.record, &error).await;
            }
            return Err(error);
        }
        Ok(())
    }

    async fn act(&self, record: &ModelRecord, action: &Action) -> Result<(), ApplyError> {
        match action {
            Action::Apply { is_new, server } => {
                let key = Key::new(record.key.namespace.clone(), server.name.clone());
                if *is_new {
                    self.check_absent(&key, &record.uid).await?;
                }
                let patch = Patch::Apply(&server.object);
                let servers = self.servers(&key);
                let applied = servers.patch(&key.name, &by_us().force(), &patch).await;
                self.written(applied, &key, "apply")
            }
            Action::Delete { key, uid, version } => {
                let parameters = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Background),
                    preconditions: Some(Preconditions {
                        resource_version: Some(version.clone()),
                        uid: Some(uid.clone()),
                    }),
                    ..DeleteParams::default()
                };
                match self.servers(key).delete(&key.name, &parameters).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    deleted => self.written(deleted, key, "delete"),
                }
            }
            Action::Event {
                is_warning,
                reason,
                note,
            } => {
                self.event(record, *is_warning, reason, note).await;
                Ok(())
            }
            Action::Status(status) => self.status(&record.key, status).await,
        }
    }

    /// Checks that no DaemonSet of that name is there, unseen by the caches or of another owner.
    async fn check_absent(&self, key: &Key, model: &str) -> Result<(), ApplyError> {
        let existing = self.servers(key).get_metadata_opt(&key.name).await;
        let existing = existing.map_err(|error| failed(key, error))?;
        let Some(existing) = existing else {
            return Ok(());
        };
        let mut owners = existing.owner_references().iter();
        if owners.any(|owner| owner.uid == model) {
            return Err(ApplyError::Outdated(format!("DaemonSet {key}")));
        }
        Err(ApplyError::Foreign {
            kind: "DaemonSet",
            key: key.clone(),
            owner: "Model",
        })
    }

    async fn event(&self, record: &ModelRecord, is_warning: bool, reason: &str, note: &str) {
        let mut model = Model::new(&record.key.name, ModelSpec::default());
        model.metadata.namespace = Some(record.key.namespace.clone());
        model.metadata.uid = Some(record.uid.clone());
        let event = Event {
            type_: if is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.to_owned(),
            note: Some(note.chars().take(1_000).collect()),
            action: "Keep".to_owned(),
            secondary: None,
        };
        match self.recorder.publish(&event, &model.object_ref(&())).await {
            Ok(()) => self.metrics.wrote("event"),
            Err(error) => {
                self.metrics.failed("event");
                tracing::warn!(model = %record.key, "event {reason}: {error}");
            }
        }
    }

    async fn status(&self, key: &Key, status: &ModelStatus) -> Result<(), ApplyError> {
        let object = json!({
            "apiVersion": Model::api_version(&()),
            "kind": Model::kind(&()),
            "metadata": {"name": key.name},
            "status": status,
        });
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &key.namespace,
            &ApiResource::erase::<Model>(&()),
        );
        let patch = Patch::Apply(&object);
        match api.patch_status(&key.name, &by_us().force(), &patch).await {
            Ok(_) => self.metrics.wrote("status"),
            // The model was deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(ApplyError::of_request(format!("status of {key}"), error)),
        }
        Ok(())
    }

    async fn report_failure(&self, record: &ModelRecord, error: &ApplyError) {
        let mut status = record.status.clone();
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let message: String = error.to_string().chars().take(1_000).collect();
        let since = status.conditions.first();
        let since = since.filter(|last| last.status == "False");
        let since = since.map_or(now, |last| last.last_transition_time.clone());
        status.conditions = vec![crate::resources::Condition {
            r#type: "Ready".to_owned(),
            status: "False".to_owned(),
            reason: "WriteFailed".to_owned(),
            message,
            observed_generation: Some(record.generation),
            last_transition_time: since,
        }];
        status.observed_generation = Some(record.generation);
        if status != record.status
            && let Err(error) = within(&self.leadership, self.status(&record.key, &status)).await
        {
            tracing::debug!(model = %record.key, "status: {error}");
        }
    }

    fn servers(&self, key: &Key) -> Api<DaemonSet> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn written<T>(
        &self,
        written: Result<T, kube::Error>,
        key: &Key,
        kind: &'static str,
    ) -> Result<(), ApplyError> {
        written.map_err(|error| failed(key, error))?;
        self.metrics.wrote(kind);
        Ok(())
    }
}

fn failed(key: &Key, error: kube::Error) -> ApplyError {
    ApplyError::of_role("DaemonSet", key, ROLE, error)
}

fn by_us() -> PatchParams {
    PatchParams::apply(labels::MANAGER)
}
