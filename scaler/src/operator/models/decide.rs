//! Writes due for a model. Purely.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::nodes::{Known, nodes_for};
use super::records::{KeeperPod, ModelRecord, PodState, ServerRecord};
use super::server::{Server, server};
use super::status::{Ready, ready, status};
use crate::nodes::KeptModel;
use crate::operator::records::NodeRecord;
use crate::resources::{ModelDescription, ModelSpec, ModelStatus};
use crate::state::Key;

/// A write for a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Makes or changes a DaemonSet.
    Apply { is_new: bool, server: Box<Server> },
    /// Deletes a DaemonSet.
    Delete {
        key: Key,
        uid: String,
        version: String,
    },
    /// Publishes an event.
    Event {
        is_warning: bool,
        reason: &'static str,
        note: String,
    },
    /// Writes the status.
    Status(Box<ModelStatus>),
}

/// Knowledge when a model is decided on.
pub(super) struct Facts<'a> {
    pub(super) record: &'a ModelRecord,
    /// Template of the pods, or the reason that there is none.
    pub(super) template: Result<&'a Value, &'a str>,
    /// All DaemonSets of models.
    pub(super) servers: &'a BTreeMap<Key, Arc<ServerRecord>>,
    /// All pods of models.
    pub(super) pods: &'a BTreeMap<Key, Arc<KeeperPod>>,
    pub(super) nodes: &'a BTreeMap<Key, Arc<NodeRecord>>,
    /// Nodes of functions that name the model.
    pub(super) of_functions: BTreeSet<&'a str>,
    /// Bytes of the model's tensors on nodes, as far as profiles of its functions tell.
    pub(super) resident: BTreeMap<String, u64>,
    /// Models that pods keep, by node, as the daemons report them.
    pub(super) kept: &'a BTreeMap<String, Arc<[KeptModel]>>,
    /// Description of its files, if it is known for this source.
    pub(super) description: Option<ModelDescription>,
    pub(super) now: Timestamp,
}

/// The writes due for a model, in their order.
pub(super) fn decide(facts: &Facts<'_>) -> Vec<Action> {
    if facts.record.is_deleting {
        // Its DaemonSets go with it.
        return Vec::new();
    }
    let no_pods = BTreeMap::new();
    let spec = match &facts.record.spec {
        Ok(spec) => spec,
        Err(problem) => {
            return facts.reported(
                &Ready::not("InvalidField", problem.to_string()),
                (0, &no_pods),
            );
        }
    };
    if spec
        .keep_until
        .as_ref()
        .is_some_and(|until| until.0 <= facts.now)
    {
        let mut actions: Vec<_> = facts.servers().map(delete).collect();
        let expired = Ready::not("Expired", "spec.keepUntil has passed");
        actions.extend(facts.reported(&expired, (0, &no_pods)));
        return actions;
    }
    let template = match facts.template {
        Ok(template) => template,
        Err(problem) => return facts.reported(&Ready::not("NoTemplate", problem), (0, &no_pods)),
    };
    facts.wanted(spec, template)
}

impl<'a> Facts<'a> {
    /// The model's own DaemonSets.
    fn servers(&self) -> impl Iterator<Item = &'a ServerRecord> {
        let (key, uid) = (&self.record.key, &self.record.uid);
        let servers = self.servers.values().map(Arc::as_ref);
        servers.filter(move |server| {
            server.key.namespace == key.namespace
                && server.model == key.name
                && server.owner.as_ref() == Some(uid)
                && !server.is_deleting
        })
    }

    /// The pods of one content, by node; of several on a node the furthest.
    fn pods(&self, content: Option<&str>) -> BTreeMap<&'a str, &'a KeeperPod> {
        let key = &self.record.key;
        let pods = self.pods.values().map(Arc::as_ref);
        let of_model = pods.filter(|pod| {
            pod.key.namespace == key.namespace
                && pod.model == key.name
                && content.is_none_or(|content| pod.content == content)
        });
        let mut by_node: BTreeMap<&str, &KeeperPod> = BTreeMap::new();
        for pod in of_model {
            let entry = by_node.entry(pod.node.as_str()).or_insert(pod);
            if pod.state > entry.state {
                *entry = pod;
            }
        }
        by_node
    }

    fn wanted(&self, spec: &ModelSpec, template: &Value) -> Vec<Action> {
        // Its content is that for any nodes.
        let content = server(self.record, spec, template, None).content;
        let of_content = |server: &&ServerRecord| server.content == content;
        let mut servers = self.servers();
        let current = servers.find(of_content);
        let present = |pods: BTreeMap<&'a str, &'a KeeperPod>| -> BTreeSet<&'a str> {
            let present = pods.into_iter();
            let present = present.filter(|(_, pod)| pod.state == PodState::Present);
            present.map(|(node, _)| node).collect()
        };
        let known = Known {
            given: current
                .and_then(|server| server.nodes.as_ref())
                .map(|nodes| nodes.iter().map(String::as_str).collect())
                .unwrap_or_default(),
            present: present(self.pods(None)),
            of_functions: self.of_functions.clone(),
            resident: &self.resident,
        };
        let nodes = nodes_for(&self.record.key, &spec.nodes, &known, self.nodes);
        let server = server(self.record, spec, template, nodes.as_ref());
        let pods = self.pods(Some(&server.content));
        let is_written = current.is_some_and(|current| current.written == server.written);
        let wanted = current
            .filter(|current| is_written && current.is_observed)
            .map(|current| current.wanted);
        let ready = ready(wanted, &pods);
        let mut actions = Vec::new();
        if !is_written {
            actions.push(Action::Apply {
                is_new: current.is_none(),
                server: Box::new(server),
            });
        }
        let stays = |server: &&ServerRecord| {
            // What pods have mounted goes on being answered for until the new content is everywhere.
            server.content == content || !ready.is_true && self.is_last(server, &content)
        };
        let gone = self.servers().filter(|server| !stays(server));
        actions.extend(gone.map(delete));
        actions.extend(self.reported(&ready, (wanted.unwrap_or(0), &pods)));
        actions
    }

    /// Returns true for the DaemonSet of an earlier content that most nodes have.
    fn is_last(&self, server: &ServerRecord, content: &str) -> bool {
        let present = |server: &ServerRecord| {
            let pods = self.pods(Some(&server.content));
            pods.values()
                .filter(|pod| pod.state == PodState::Present)
                .count()
        };
        let earlier = self.servers().filter(|server| server.content != content);
        let last = earlier.max_by_key(|server| (present(server), &server.key));
        last.is_some_and(|last| last.key == server.key && present(last) > 0)
    }

    /// Adds the progress of nodes that pull the model, as their daemons report it.
    fn add_progress(&self, status: &mut ModelStatus) {
        let key = &self.record.key;
        let spec = self.record.spec.as_ref().ok();
        let store = spec.and_then(|spec| spec.store.as_ref());
        let store = store.unwrap_or(&key.namespace);
        let pulling = status
            .nodes
            .iter_mut()
            .filter(|node| node.state == "Pulling");
        for node in pulling {
            let mut kept = self
                .kept
                .get(&node.name)
                .into_iter()
                .flat_map(|kept| kept.iter());
            let of_model = kept.find(|kept| kept.store == *store && kept.name == key.name);
            if let Some(kept) = of_model.filter(|kept| kept.total_bytes > 0) {
                node.done_bytes = Some(kept.done_bytes);
                node.total_bytes = Some(kept.total_bytes);
                node.bytes_per_second = Some(kept.bytes_per_second);
            }
        }
    }

    /// The status and the events about what has changed in it.
    fn reported(&self, ready: &Ready, nodes: (u32, &BTreeMap<&str, &KeeperPod>)) -> Vec<Action> {
        let before = &self.record.status;
        let mut now = status(self.record, ready, nodes, self.now);
        self.add_progress(&mut now);
        now.description.clone_from(&self.description);
        if now == *before {
            return Vec::new();
        }
        let mut actions = Vec::new();
        let last = before.conditions.first();
        if last.is_none_or(|last| last.reason != ready.reason) {
            let is_warning = !matches!(ready.reason, "Present" | "Pulling" | "Ordered" | "Expired");
            actions.push(Action::Event {
                is_warning,
                reason: ready.reason,
                note: ready.message.clone(),
            });
        }
        actions.push(Action::Status(Box::new(now)));
        actions
    }
}

fn delete(server: &ServerRecord) -> Action {
    Action::Delete {
        key: server.key.clone(),
        uid: server.uid.clone(),
        version: server.version.clone(),
    }
}
