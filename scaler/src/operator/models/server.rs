//! The DaemonSet of a model, from the template of the operator's namespace. Purely.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tetris_store_layout::Digest;

use super::records::ModelRecord;
use crate::labels;
use crate::operator::json_paths::{list, object};
use crate::resources::{Model, ModelSpec};

/// Mount path of the store.
const STORE_PATH: &str = "/run/tetris/store";
/// Mount path of what is needed of a Secret as a file.
const SECRET_PATH: &str = "/run/tetris/source";
/// Name of the Secret's volume, which the admission policy knows.
const SECRET_VOLUME: &str = "source-secret";
/// Name of the store's volume.
const STORE_VOLUME: &str = "tetris-store";
/// CSI driver of the store.
const DRIVER: &str = "csi.tetris.dev";
/// Port of the readiness probe.
pub(super) const READY_PORT: u16 = 8080;

/// A DaemonSet to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Server {
    /// Its name.
    pub(super) name: String,
    /// Hash of its content, which stays.
    pub(super) content: String,
    /// Hash of all of it.
    pub(super) written: String,
    /// The object.
    pub(super) object: Value,
}

/// The DaemonSet of a model on these nodes, or on all with its labels.
pub(super) fn server(
    record: &ModelRecord,
    spec: &ModelSpec,
    template: &Value,
    nodes: Option<&BTreeSet<String>>,
) -> Server {
    let model = &record.key.name;
    let mut pods = template.clone();
    let container = object(&mut pods, &["spec"]);
    let container = container.get_mut("containers");
    if let Some(container) = container.and_then(|all| all.get_mut(0)) {
        fill(container, model, spec);
    }
    object(&mut pods, &["spec"]).insert(
        "serviceAccountName".to_owned(),
        spec.service_account_name.clone().into(),
    );
    if let Some(class) = &spec.priority_class_name {
        object(&mut pods, &["spec"]).insert("priorityClassName".to_owned(), class.clone().into());
    }
    add_volumes(&mut pods, spec);
    let content: String = Digest::of(pods.to_string().as_bytes())
        .to_string()
        .chars()
        .take(10)
        .collect();
    let marks = json!({labels::MODEL: model, labels::MODEL_CONTENT: content});
    let marks = marks.as_object().cloned().unwrap_or_default();
    object(&mut pods, &["metadata", "labels"]).extend(marks.clone());
    narrow(&mut pods, spec, nodes);
    let name = format!("{model}-{content}");
    let mut annotations = Map::new();
    if let Some(nodes) = nodes {
        annotations.insert(
            labels::MODEL_NODES.to_owned(),
            json!(nodes).to_string().into(),
        );
    }
    let mut server = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": record.key.namespace,
            "labels": marks,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": <Model as kube::Resource>::api_version(&()),
                "kind": <Model as kube::Resource>::kind(&()),
                "name": model,
                "uid": record.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": {
            "selector": {"matchLabels": marks},
            // Its nodes alone change, and pods on the others stay as they are.
            "updateStrategy": {"type": "OnDelete"},
            "template": pods,
        },
    });
    let written: String = Digest::of(server.to_string().as_bytes())
        .to_string()
        .chars()
        .take(16)
        .collect();
    object(&mut server, &["metadata", "annotations"])
        .insert(labels::WRITTEN.to_owned(), written.clone().into());
    Server {
        name,
        content,
        written,
        object: server,
    }
}

fn fill(container: &mut Value, model: &str, spec: &ModelSpec) {
    let mut arguments = vec![
        "keep".to_owned(),
        "--name".to_owned(),
        model.to_owned(),
        "--ready-port".to_owned(),
        READY_PORT.to_string(),
    ];
    let patterns = [("--include", &spec.include), ("--exclude", &spec.exclude)];
    for (flag, patterns) in patterns {
        arguments.extend(patterns.iter().map(|pattern| format!("{flag}={pattern}")));
    }
    if let Some(priority) = spec.priority {
        arguments.push(format!("--priority={priority}"));
    }
    if let Some(connections) = spec.connections {
        arguments.push(format!("--connections={connections}"));
    }
    if let Some(rate) = &spec.limit_rate {
        arguments.push(format!("--limit-rate={rate}"));
    }
    arguments.extend(["--".to_owned(), spec.full_source()]);
    object(container, &[]).insert("args".to_owned(), json!(arguments));
    let variables = spec
        .environment
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    list(container, &[], "env").extend(variables);
    let mounts = list(container, &[], "volumeMounts");
    mounts.push(json!({"name": STORE_VOLUME, "mountPath": STORE_PATH, "readOnly": true}));
    if let Some(memory) = &spec.memory {
        object(container, &["resources", "limits"])
            .insert("memory".to_owned(), memory.clone().into());
        // The same, by default.
        object(container, &["resources"])
            .get_mut("requests")
            .and_then(Value::as_object_mut)
            .map(|requests| requests.remove("memory"));
    }
    if let Some(secret) = &spec.secret {
        list(container, &[], "envFrom").push(json!({"secretRef": {"name": secret}}));
        list(container, &[], "env").push(json!({"name": "DOCKER_CONFIG", "value": SECRET_PATH}));
        list(container, &[], "volumeMounts")
            .push(json!({"name": SECRET_VOLUME, "mountPath": SECRET_PATH, "readOnly": true}));
    }
}

fn add_volumes(pods: &mut Value, spec: &ModelSpec) {
    let volumes = list(pods, &["spec"], "volumes");
    let mut csi = json!({"driver": DRIVER, "readOnly": true});
    if let Some(store) = &spec.store {
        object(&mut csi, &["volumeAttributes"]).insert("store".to_owned(), store.clone().into());
    }
    volumes.push(json!({"name": STORE_VOLUME, "csi": csi}));
    if let Some(secret) = &spec.secret {
        // A Secret of another kind has no such key.
        volumes.push(json!({"name": SECRET_VOLUME, "secret": {
            "secretName": secret,
            "optional": true,
            "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
        }}));
    }
}

/// Narrows the pods to nodes: by their labels, or by their names.
fn narrow(pods: &mut Value, spec: &ModelSpec, nodes: Option<&BTreeSet<String>>) {
    for (name, value) in &spec.nodes.match_labels {
        object(pods, &["spec", "nodeSelector"]).insert(name.clone(), value.clone().into());
    }
    let Some(nodes) = nodes else { return };
    // A term has one name, and there has to be a term.
    let none = [String::new()];
    let names: Vec<&String> = if nodes.is_empty() {
        none.iter().collect()
    } else {
        nodes.iter().collect()
    };
    let terms = names.into_iter().map(|node| {
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]})
    });
    let required = json!({"nodeSelectorTerms": terms.collect::<Vec<_>>()});
    object(pods, &["spec", "affinity", "nodeAffinity"]).insert(
        "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
        required,
    );
}
