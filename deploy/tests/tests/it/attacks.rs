//! Changes that a stolen account tries, and those that its component needs: for the policies alone, and on a real API server.

use serde_json::{Value, json};

/// A change of an object, with a name.
pub type Change = (&'static str, fn(&mut Value));

/// The account of the webhook.
pub const WEBHOOK: &str = "system:serviceaccount:tetris-system:tetris-webhook";
/// The account of the scaler.
pub const SCALER: &str = "system:serviceaccount:tetris-system:tetris-scaler";

/// The account that opens gates.
pub const GATES: &str = "system:serviceaccount:tetris-system:tetris-gates";

/// Changes of any object's metadata that no one here needs.
const METADATA: [Change; 4] = [
    ("an owner", |it| {
        it["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "none",
            "uid": "00000000-0000-0000-0000-000000000001",
        }]);
    }),
    ("a finalizer", |it| {
        it["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }),
    ("another label", |it| {
        it["metadata"]["labels"]["app.kubernetes.io/name"] = "x".into();
    }),
    ("no labels", |it| it["metadata"]["labels"] = json!({})),
];

/// Changes of the configuration, which decides on pods of the whole cluster.
pub fn of_the_configuration() -> Vec<Change> {
    let specific: [Change; 14] = [
        ("other rules", |it| {
            it["webhooks"][0]["rules"][0]["resources"] = json!(["secrets"]);
        }),
        ("more operations", |it| {
            it["webhooks"][1]["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
        }),
        ("all namespaces", |it| {
            it["webhooks"][0]["namespaceSelector"] = json!({});
        }),
        ("all objects", |it| {
            it["webhooks"][1]["objectSelector"] = json!({});
        }),
        ("a condition", |it| {
            it["webhooks"][0]["matchConditions"] =
                json!([{"name": "never", "expression": "false"}]);
        }),
        ("a URL", |it| {
            it["webhooks"][0]["clientConfig"] =
                json!({"url": "https://example.com/steal", "caBundle": "Y2E="});
        }),
        ("another service", |it| {
            it["webhooks"][1]["clientConfig"]["service"]["namespace"] = "default".into();
        }),
        ("another path", |it| {
            it["webhooks"][0]["clientConfig"]["service"]["path"] = "/x".into();
        }),
        ("no pod without it", |it| {
            it["webhooks"][0]["failurePolicy"] = "Fail".into();
        }),
        ("a longer timeout", |it| {
            it["webhooks"][0]["timeoutSeconds"] = 30.into();
        }),
        ("one more webhook", |it| {
            let mut more = it["webhooks"][0].clone();
            more["name"] = "more.example.com".into();
            it["webhooks"].as_array_mut().unwrap().push(more);
        }),
        ("one webhook less", |it| {
            it["webhooks"].as_array_mut().unwrap().pop();
        }),
        ("another order", |it| {
            it["webhooks"].as_array_mut().unwrap().reverse();
        }),
        ("an annotation", |it| {
            it["metadata"]["annotations"] = json!({"example.com/a": "b"});
        }),
    ];
    [&specific[..], &METADATA].concat()
}

/// Changes of the secret that would end it, or make it another account's.
pub fn of_the_secret() -> Vec<Change> {
    let specific: [Change; 2] = [
        ("the annotation of an account's token", |it| {
            it["metadata"]["annotations"] =
                json!({"kubernetes.io/service-account.name": "default"});
        }),
        ("that it cannot be changed", |it| {
            it["immutable"] = true.into();
        }),
    ];
    [&specific[..], &METADATA].concat()
}

/// Changes of a Deployment that the scaler made.
pub fn of_its_deployment() -> Vec<Change> {
    let all: [Change; 6] = [
        ("no owner", |it| {
            it["metadata"]["ownerReferences"] = json!([]);
        }),
        ("another owner", |it| {
            it["metadata"]["ownerReferences"][0]["uid"] =
                "00000000-0000-0000-0000-000000000002".into();
        }),
        ("one more owner", |it| {
            it["metadata"]["ownerReferences"]
                .as_array_mut()
                .unwrap()
                .push(json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "none",
                    "uid": "00000000-0000-0000-0000-000000000001",
                }));
        }),
        ("another function", |it| {
            it["metadata"]["labels"]["tetris.dev/function"] = "other".into();
        }),
        ("no labels", |it| it["metadata"]["labels"] = json!({})),
        ("a finalizer", |it| {
            it["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }),
    ];
    all.to_vec()
}

/// Changes of any Deployment, each of which takes it over.
pub fn of_another_deployment() -> Vec<Change> {
    let all: [Change; 4] = [
        ("the image", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/steal:1".into();
        }),
        ("replicas", |it| it["spec"]["replicas"] = 0.into()),
        ("its account", |it| {
            it["spec"]["template"]["spec"]["serviceAccountName"] = "admin".into();
        }),
        ("labels and owner of a function", |it| {
            it["metadata"]["labels"] =
                json!({"tetris.dev/function": "f", "tetris.dev/configuration": "c1-b1-p1"});
            it["metadata"]["ownerReferences"] =
                json!([owner("00000000-0000-0000-0000-000000000003")]);
        }),
    ];
    all.to_vec()
}

/// Spoils a Deployment that is about to be created.
pub fn of_a_new_deployment() -> Vec<Change> {
    let mut all = of_its_deployment();
    // It has no uid that could be another one's.
    all.retain(|(what, _)| *what != "another owner");
    let more: [Change; 4] = [
        ("another name", |it| {
            it["metadata"]["name"] = "coredns".into();
        }),
        ("an owner of another kind", |it| {
            it["metadata"]["ownerReferences"][0]["apiVersion"] = "apps/v1".into();
            it["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into();
        }),
        ("an owner that does not control it", |it| {
            it["metadata"]["ownerReferences"][0]["controller"] = false.into();
        }),
        ("a wider selector", |it| {
            let labels = it["spec"]["selector"]["matchLabels"].as_object_mut();
            labels.unwrap().remove("tetris.dev/configuration");
        }),
    ];
    all.extend(more);
    all
}

/// Changes of an instance.
pub fn of_an_instance() -> Vec<Change> {
    let all: [Change; 10] = [
        ("the image", |it| {
            it["spec"]["containers"][0]["image"] = "example.com/steal:1".into();
        }),
        ("a toleration", |it| {
            let more = json!({"key": "example.com/any", "operator": "Exists"});
            match it["spec"]["tolerations"].as_array_mut() {
                Some(all) => all.push(more),
                None => it["spec"]["tolerations"] = json!([more]),
            }
        }),
        ("another function", |it| {
            it["metadata"]["labels"]["tetris.dev/function"] = "other".into();
        }),
        ("one more label", |it| {
            it["metadata"]["labels"]["app"] = "victim".into();
        }),
        ("an annotation", |it| {
            it["metadata"]["annotations"]["example.com/a"] = "b".into();
        }),
        ("a GPU", |it| {
            it["metadata"]["annotations"]["tetris.dev/gpu"] = "GPU-0".into();
        }),
        ("an annotation less", |it| {
            it["metadata"]["annotations"]
                .as_object_mut()
                .unwrap()
                .remove("example.com/kept");
        }),
        ("another annotation", |it| {
            it["metadata"]["annotations"]["example.com/kept"] = "no".into();
        }),
        ("a finalizer", |it| {
            it["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }),
        ("an owner", |it| {
            it["metadata"]["ownerReferences"] =
                json!([owner("00000000-0000-0000-0000-000000000003")]);
        }),
    ];
    all.to_vec()
}

/// Changes of an instance that the scaler makes.
pub fn marks() -> Vec<Change> {
    let all: [Change; 2] = [
        ("the cost of deletion", |it| {
            it["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] =
                "-100".into();
        }),
        ("that it is being replaced", |it| {
            it["metadata"]["annotations"]["tetris.dev/retiring"] = "true".into();
        }),
    ];
    all.to_vec()
}

/// Changes of a gated instance that the scaler makes: first the gate alone, as the account of gates does.
pub fn openings() -> Vec<Change> {
    let all: [Change; 3] = [
        ("an open gate", |it| {
            it["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]);
        }),
        ("an open gate and a node", |it| {
            it["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]);
            let terms = &mut it["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                ["nodeSelectorTerms"];
            terms[0]["matchFields"] =
                json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
        }),
        ("an open gate and a GPU", |it| {
            it["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]);
            it["metadata"]["annotations"]["tetris.dev/gpu"] = "GPU-0".into();
        }),
    ];
    all.to_vec()
}

/// Writes of the scaler to a pod of another owner that names its model.
pub fn preferences() -> Vec<Change> {
    let all: [Change; 2] = [
        ("an open gate", open),
        ("an open gate and preferred nodes", |it| {
            open(it);
            prefer(it);
        }),
    ];
    all.to_vec()
}

/// Adds a preferred node.
pub fn prefer(pod: &mut Value) {
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let terms = pod["spec"]["affinity"]["nodeAffinity"][preferred].as_array_mut();
    let named = json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
    let term = json!({"weight": 90, "preference": {"matchFields": named}});
    terms.unwrap().push(term);
}

/// Changes of gates that no one here needs.
pub fn of_gates() -> Vec<Change> {
    let all: [Change; 4] = [
        ("no gate at all", |it| {
            it["spec"]["schedulingGates"] = json!([]);
        }),
        ("another gate removed", |it| {
            it["spec"]["schedulingGates"] = json!([{"name": "tetris.dev/placement"}]);
        }),
        ("one more gate", |it| {
            let gates = it["spec"]["schedulingGates"].as_array_mut();
            gates.unwrap().push(json!({"name": "example.com/more"}));
        }),
        ("another gate instead", |it| {
            it["spec"]["schedulingGates"] = json!([{"name": "example.com/more"}]);
        }),
    ];
    all.to_vec()
}

/// Changes of a gated instance that the API server would take, and no one here needs.
pub fn of_a_gated_instance() -> Vec<Change> {
    let all: [Change; 5] = [
        ("a node with a closed gate", |it| {
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            let terms = &mut it["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
            terms[0]["matchFields"] =
                json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
        }),
        ("a node selector", |it| {
            it["spec"]["nodeSelector"]["example.com/more"] = "true".into();
        }),
        ("other preferred nodes", |it| {
            open(it);
            it["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([]);
        }),
        ("no spreading", |it| {
            open(it);
            let affinity = it["spec"]["affinity"].as_object_mut();
            affinity.unwrap().remove("podAntiAffinity");
        }),
        ("no affinity", |it| {
            open(it);
            it["spec"].as_object_mut().unwrap().remove("affinity");
        }),
    ];
    all.to_vec()
}

/// Removes the gate, as it may.
fn open(instance: &mut Value) {
    instance["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]);
}

/// Spoils an event about a function.
pub fn of_an_event() -> Vec<Change> {
    let all: [Change; 2] = [
        ("another controller", |it| {
            it["reportingController"] = "kubelet".into();
        }),
        ("another object", |it| {
            it["regarding"]["kind"] = "Pod".into();
        }),
    ];
    all.to_vec()
}

/// A reference to the function `f`.
pub fn owner(uid: &str) -> Value {
    json!({"apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction", "name": "f", "uid": uid, "controller": true})
}

/// A Job as the scaler writes it for a function.
pub fn job(namespace: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "f-0123456789", "namespace": namespace,
            "labels": {"tetris.dev/profiling": "f", "tetris.dev/measured-content": "0123456789"},
            "ownerReferences": [owner("u1")],
        },
        "spec": {
            "activeDeadlineSeconds": 1200, "ttlSecondsAfterFinished": 1800,
            "template": {"spec": {
                "automountServiceAccountToken": false, "restartPolicy": "Never",
                "containers": [{"name": "server", "image": "server:1"}],
            }},
        },
    })
}

/// Changes of a Job that the scaler must not make, and Jobs that it must not create.
pub fn of_a_job() -> Vec<Change> {
    vec![
        ("no label", |it| {
            it["metadata"]["labels"] = json!({"app": "x"});
        }),
        ("another function's owner", |it| {
            it["metadata"]["ownerReferences"][0]["name"] = "other".into();
        }),
        ("no owner", |it| {
            it["metadata"]["ownerReferences"] = json!([]);
        }),
        ("an owner of another kind", |it| {
            it["metadata"]["ownerReferences"][0]["kind"] = "Model".into();
        }),
        ("a finalizer", |it| {
            it["metadata"]["finalizers"] = json!(["example.com/x"]);
        }),
        ("a token", |it| {
            it["spec"]["template"]["spec"]["automountServiceAccountToken"] = true.into();
        }),
        ("no end", |it| {
            let spec = it["spec"].as_object_mut().unwrap();
            spec.remove("activeDeadlineSeconds");
        }),
    ]
}

/// A ModelProfile as the scaler writes it for a function.
pub fn profile(namespace: &str) -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {
            "name": "f", "namespace": namespace,
            "labels": {"tetris.dev/profiling": "f"}, "ownerReferences": [owner("u1")],
        },
        "spec": {"model": "f", "configurations": []},
    })
}

/// Changes of a ModelProfile that the scaler must not make, and those that it must not create.
pub fn of_a_profile() -> Vec<Change> {
    vec![
        ("no label", |it| {
            it["metadata"]["labels"] = json!({});
        }),
        ("another function's owner", |it| {
            it["metadata"]["ownerReferences"][0]["name"] = "other".into();
        }),
    ]
}

/// Changes of a user's ModelProfile.
pub fn of_a_profile_of_a_user() -> Vec<Change> {
    vec![
        ("its model", |it| it["spec"]["model"] = "other".into()),
        ("a label", |it| {
            it["metadata"]["labels"] = json!({"tetris.dev/profiling": "f"});
        }),
    ]
}

/// A Deployment as the scaler creates it.
pub fn deployment(namespace: &str) -> Value {
    let marks = json!({"tetris.dev/function": "f", "tetris.dev/configuration": "c1-b1-p1"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "f-c1-b1-p1", "namespace": namespace, "labels": marks,
            "ownerReferences": [owner("00000000-0000-0000-0000-000000000003")],
        },
        "spec": {
            "replicas": 0, "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": marks}, "spec": pod_spec()},
        },
    })
}

/// A DaemonSet of the Model `m`, as the operator makes it from the PodTemplate `base`.
pub fn model_server(namespace: &str, base: &Value) -> Value {
    let marks = json!({"tetris.dev/model": "m", "tetris.dev/model-content": "0a1b2c3d4e"});
    let mut pods = base["template"].clone();
    pods["metadata"]["labels"] = marks.clone();
    let spec = &mut pods["spec"];
    spec["serviceAccountName"] = "default".into();
    spec["volumes"] = json!([
        {"name": "tetris-store", "csi": {"driver": "csi.tetris.dev", "readOnly": true}},
        {"name": "source-secret", "secret": {"secretName": "hub", "optional": true}},
    ]);
    spec["nodeSelector"] = json!({"kind": "gpu"});
    let container = &mut spec["containers"][0];
    container["args"] = json!(["keep", "--name", "m", "--", "hf://org/m"]);
    container["envFrom"] = json!([{"secretRef": {"name": "hub"}}]);
    container["volumeMounts"] =
        json!([{"name": "tetris-store", "mountPath": "/run/tetris/store", "readOnly": true}]);
    let mut owner = owner("00000000-0000-0000-0000-000000000003");
    (owner["kind"], owner["name"]) = ("Model".into(), "m".into());
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {
            "name": "m-0a1b2c3d4e", "namespace": namespace, "labels": marks, "ownerReferences": [owner],
        },
        "spec": {
            "selector": {"matchLabels": marks}, "updateStrategy": {"type": "OnDelete"}, "template": pods,
        },
    })
}

/// Changes of a model's DaemonSet that make it another program's, or give it what it needs not.
pub fn of_a_model_server() -> Vec<Change> {
    let all: [Change; 19] = [
        ("no owner", |it| {
            it["metadata"]["ownerReferences"] = json!([]);
        }),
        ("an owner of another kind", |it| {
            it["metadata"]["ownerReferences"][0]["kind"] = "InferenceFunction".into();
        }),
        ("another model", |it| {
            it["metadata"]["labels"]["tetris.dev/model"] = "other".into();
        }),
        ("a finalizer", |it| {
            it["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }),
        ("a wider selector", |it| {
            let labels = it["spec"]["selector"]["matchLabels"].as_object_mut();
            labels.unwrap().remove("tetris.dev/model-content");
        }),
        ("the image", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/steal:1".into();
        }),
        ("the command", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["/bin/sh", "-c"]);
        }),
        ("another command of it", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["args"][0] = "exec".into();
        }),
        ("no arguments", |it| {
            let container = it["spec"]["template"]["spec"]["containers"][0].as_object_mut();
            container.unwrap().remove("args");
        }),
        ("rights", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["securityContext"] =
                json!({"privileged": true});
        }),
        ("a capability", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"] =
                json!({"drop": ["ALL"], "add": ["SYS_ADMIN"]});
        }),
        ("an image that ends like ours", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["image"] =
                "example.com/not-tetris-agent:1".into();
        }),
        ("a program that runs first", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["lifecycle"] =
                json!({"postStart": {"exec": {"command": ["/usr/local/bin/tetris", "ls"]}}});
        }),
        ("one more container", |it| {
            let containers = &mut it["spec"]["template"]["spec"]["containers"];
            let mut more = containers[0].clone();
            more["name"] = "more".into();
            containers.as_array_mut().unwrap().push(more);
        }),
        ("a container that comes first", |it| {
            it["spec"]["template"]["spec"]["initContainers"] =
                json!([{"name": "first", "image": "example.com/steal:1"}]);
        }),
        ("the node's network", |it| {
            it["spec"]["template"]["spec"]["hostNetwork"] = true.into();
        }),
        ("a token", |it| {
            it["spec"]["template"]["spec"]["automountServiceAccountToken"] = true.into();
        }),
        ("a directory of the node", |it| {
            let volumes = it["spec"]["template"]["spec"]["volumes"].as_array_mut();
            volumes
                .unwrap()
                .push(json!({"name": "root", "hostPath": {"path": "/"}}));
        }),
        ("a directory by the name of the store", |it| {
            it["spec"]["template"]["spec"]["volumes"][0] =
                json!({"name": "tetris-store", "hostPath": {"path": "/"}});
        }),
    ];
    all.to_vec()
}

/// A Deployment of a user.
pub fn another_deployment(namespace: &str) -> Value {
    let mut deployment = deployment(namespace);
    let labels = json!({"app": "victim"});
    deployment["metadata"] = json!({"name": "victim", "namespace": namespace, "labels": labels});
    deployment["spec"]["selector"]["matchLabels"] = labels.clone();
    deployment["spec"]["template"]["metadata"]["labels"] = labels;
    deployment
}

/// An instance of the function `f`, which no node takes.
pub fn instance(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "instance", "namespace": namespace,
            "labels": {"tetris.dev/function": "f", "tetris.dev/configuration": "c1-b1-p1"},
            "annotations": {"example.com/kept": "yes"},
        },
        "spec": pod_spec(),
    })
}

/// An instance that waits for its node, with a gate and affinity of its template as well.
pub fn gated_instance(namespace: &str) -> Value {
    let mut pod = instance(namespace);
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "f-c1-b1-p1-5d9c7b",
        "uid": "00000000-0000-0000-0000-000000000003", "controller": true,
    }]);
    pod["spec"]["schedulingGates"] =
        json!([{"name": "tetris.dev/placement"}, {"name": "example.com/other"}]);
    let zone = |name: &str| json!([{"key": "zone", "operator": "In", "values": [name]}]);
    pod["spec"]["affinity"] = json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": zone("a")}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": zone("b")}}],
        },
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"},
        }]},
    });
    pod
}

/// A pod of a user that names its model, with the gate of the webhook.
pub fn model_pod(namespace: &str) -> Value {
    let mut pod = gated_instance(namespace);
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata.remove("ownerReferences");
    metadata.insert("name".to_owned(), "model-pod".into());
    metadata.insert("labels".to_owned(), json!({"app": "victim"}));
    pod["metadata"]["annotations"]["tetris.dev/profile"] = "m".into();
    pod
}

/// A pod of a user.
pub fn another_pod(namespace: &str) -> Value {
    let mut pod = instance(namespace);
    pod["metadata"]["name"] = "victim".into();
    pod["metadata"]["labels"] = json!({"app": "victim"});
    pod
}

/// An event about the function `f`.
pub fn event(namespace: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "f.1", "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "ScaledOut", "action": "Scale", "type": "Normal",
        "reportingController": "tetris-scaler", "reportingInstance": "tetris-scaler",
        "regarding": {"apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction", "name": "f", "namespace": namespace},
    })
}

/// A request for a token, as the scaler sends it.
pub fn token_request() -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": [format!("tetris-node/sha256:{}", "0a".repeat(32))],
            "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "tetris-scaler-1"},
        },
    })
}

/// Requests for tokens that are good for more than a daemon, for longer, or without the pod.
pub fn of_a_token_request() -> Vec<Change> {
    vec![
        ("no audiences", |it| {
            it["spec"].as_object_mut().unwrap().remove("audiences");
        }),
        ("an empty list of audiences", |it| {
            it["spec"]["audiences"] = json!([]);
        }),
        ("the API server", |it| {
            it["spec"]["audiences"] = json!(["https://kubernetes.default.svc"]);
        }),
        ("the API server beside a daemon", |it| {
            it["spec"]["audiences"]
                .as_array_mut()
                .unwrap()
                .push("https://kubernetes.default.svc".into());
        }),
        ("an audience that begins as a daemon's", |it| {
            let audience = format!("{}, other", it["spec"]["audiences"][0].as_str().unwrap());
            it["spec"]["audiences"] = json!([audience]);
        }),
        ("a longer life", |it| {
            it["spec"]["expirationSeconds"] = 601.into();
        }),
        ("the usual life", |it| {
            it["spec"]
                .as_object_mut()
                .unwrap()
                .remove("expirationSeconds");
        }),
        ("no pod", |it| {
            it["spec"].as_object_mut().unwrap().remove("boundObjectRef");
        }),
        ("a Secret in place of a pod", |it| {
            it["spec"]["boundObjectRef"]["kind"] = "Secret".into();
        }),
        ("a pod without a name", |it| {
            it["spec"]["boundObjectRef"]
                .as_object_mut()
                .unwrap()
                .remove("name");
        }),
    ]
}

/// As Pod Security "restricted" allows it.
fn pod_spec() -> Value {
    json!({
        "nodeSelector": {"example.com/none": "true"},
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "server", "image": "example.com/server:1",
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }],
    })
}
