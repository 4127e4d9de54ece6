//! Rights of components at the API server: exactly those that they need.

use serde_json::{Value, json};
use tetris_deploy_tests::kustomize::{INSTALLS, RENDERED, WITH_GATEWAY, WITH_SCALER, WITH_WEBHOOK};
use tetris_deploy_tests::objects::{Objects, list, text};

/// The role that administrators bind, in each namespace that lets the scaler write.
const TO_BE_BOUND: &str = "tetris-scaler-namespace";
/// The role that they bind in each namespace with models.
const MODELS_TO_BE_BOUND: &str = "tetris-scaler-models";
/// The role that they bind beside the first, so that pods start without the operator.
const GATES_TO_BE_BOUND: &str = "tetris-gates-namespace";

/// Kind, name and rules of all roles, in order.
fn roles(objects: &Objects) -> Vec<(&str, &str, &Value)> {
    let kinds = ["ClusterRole", "Role"];
    let all = objects
        .0
        .iter()
        .filter(|object| kinds.contains(&text(&object["kind"])));
    let mut all: Vec<_> = all
        .map(|role| {
            (
                text(&role["kind"]),
                text(&role["metadata"]["name"]),
                &role["rules"],
            )
        })
        .collect();
    all.sort_by_key(|(kind, name, _)| (*kind, *name));
    all
}

/// Rights of the daemon.
fn node() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}])
}

/// Rights of the webhook: in the cluster, and in its namespace.
fn webhook() -> [Value; 2] {
    let configuration = json!([{
        "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": ["tetris-webhook"], "verbs": ["get", "patch"]}]);
    let secret = json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tetris-webhook-tls"],
        "verbs": ["get", "update"]}]);
    [configuration, secret]
}

/// Rights of the scaler: in the cluster, in namespaces that let it write, and in its own.
fn scaler() -> [Value; 4] {
    let cluster = json!([
        {"apiGroups": ["tetris.dev"], "resources": ["inferencefunctions", "modelprofiles", "models"],
         "verbs": ["list", "watch"]},
        {"apiGroups": ["tetris.dev"], "resources": ["inferencefunctions/status", "models/status"],
         "verbs": ["patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": ["list", "watch"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]);
    let namespace = json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch", "delete"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"]},
        {"apiGroups": ["tetris.dev"], "resources": ["modelprofiles"], "verbs": ["create", "patch"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]);
    let of_namespace = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["tetris-scaler"],
         "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["tetris-scaler"],
         "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["podtemplates"], "verbs": ["list", "watch"]}]);
    let models = json!([
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "create", "patch", "delete"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]);
    [cluster, namespace, of_namespace, models]
}

/// Rights of the gateway: it reads, and asks about tokens.
fn gateway() -> Value {
    let verbs = ["get", "list", "watch"];
    json!([
        {"apiGroups": ["tetris.dev"], "resources": ["inferencefunctions", "modelprofiles"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}])
}

/// Rights of the account that opens gates: in the cluster, and in namespaces that let it.
fn gates() -> [Value; 2] {
    ["list watch", "patch"].map(|verbs| {
        let verbs: Vec<_> = verbs.split(' ').collect();
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}])
    })
}

#[test]
fn each_install_has_the_rights_of_its_components_and_no_others() {
    let (node, webhook, scaler, gates) = (node(), webhook(), scaler(), gates());
    let gateway = gateway();
    for name in INSTALLS {
        let mut expected = vec![("ClusterRole", "tetris-node", &node)];
        if WITH_SCALER.contains(&name) {
            expected.extend([
                ("ClusterRole", "tetris-scaler", &scaler[0]),
                ("ClusterRole", TO_BE_BOUND, &scaler[1]),
                ("ClusterRole", MODELS_TO_BE_BOUND, &scaler[3]),
                ("Role", "tetris-scaler", &scaler[2]),
                ("ClusterRole", "tetris-gates", &gates[0]),
                ("ClusterRole", GATES_TO_BE_BOUND, &gates[1]),
            ]);
        }
        if WITH_GATEWAY.contains(&name) {
            expected.push(("ClusterRole", "tetris-gateway", &gateway));
        }
        if WITH_WEBHOOK.contains(&name) {
            expected.extend([
                ("ClusterRole", "tetris-webhook", &webhook[0]),
                ("Role", "tetris-webhook", &webhook[1]),
            ]);
        }
        expected.sort_by_key(|(kind, name, _)| (*kind, *name));
        assert_eq!(roles(&Objects::golden(name)), expected, "{name}");
    }
}

/// Kubernetes does not let a rule of `create` name the object.
#[test]
fn nothing_may_create_what_the_manifests_bring() {
    let webhook = Objects::golden("webhook");
    let secret = webhook.one("Secret", "tetris-webhook-tls");
    let scaler = Objects::golden("scaler");
    let lease = scaler.one("Lease", "tetris-scaler");
    // Applied again, they keep what the components wrote.
    for field in ["data", "stringData", "type", "immutable"] {
        assert_eq!(secret[field], Value::Null, "{field}");
    }
    assert_eq!(lease["spec"], Value::Null);
    for object in [secret, lease] {
        assert_eq!(object["metadata"]["namespace"], "tetris-system");
        assert_eq!(object["metadata"]["annotations"], Value::Null);
    }
    let label = &secret["metadata"]["labels"][tetris_webhook::sync::OWNER_LABEL];
    assert_eq!(*label, tetris_webhook::sync::OWNER_VALUE);
}

#[test]
fn each_role_is_bound_to_the_account_of_its_name() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for (kind, role, _) in roles(&objects) {
            if [TO_BE_BOUND, GATES_TO_BE_BOUND, MODELS_TO_BE_BOUND].contains(&role) {
                continue;
            }
            let binding = objects.one(&format!("{kind}Binding"), role);
            assert_eq!(binding["roleRef"]["kind"], kind, "{name}");
            assert_eq!(binding["roleRef"]["name"], role, "{name}");
            let subject =
                json!([{"kind": "ServiceAccount", "name": role, "namespace": "tetris-system"}]);
            assert_eq!(binding["subjects"], subject, "{name}");
            objects.one("ServiceAccount", role);
        }
    }
}

#[test]
fn pods_are_written_in_namespaces_that_let_the_account_alone() {
    for (role, account) in [
        (TO_BE_BOUND, "tetris-scaler"),
        (GATES_TO_BE_BOUND, "tetris-gates"),
    ] {
        let subject =
            json!([{"kind": "ServiceAccount", "name": account, "namespace": "tetris-system"}]);
        let mut bound = Vec::new();
        for (name, _) in RENDERED {
            let objects = Objects::golden(name);
            for binding in ["ClusterRoleBinding", "RoleBinding"]
                .iter()
                .flat_map(|kind| objects.all(kind))
            {
                if binding["roleRef"]["name"] == role {
                    assert_eq!(binding["kind"], "RoleBinding", "{name}");
                    assert_eq!(binding["roleRef"]["kind"], "ClusterRole", "{name}");
                    assert_eq!(binding["subjects"], subject, "{name}");
                    bound.push(name);
                }
            }
        }
        assert_eq!(bound, ["sample-scaler", "cluster-function"]);
    }
}

/// A token that the kubelet mounts by itself may be good for a year after it was stolen.
#[test]
fn tokens_end_soon_and_are_where_they_are_used_alone() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for account in objects.all("ServiceAccount") {
            assert_eq!(account["automountServiceAccountToken"], false, "{name}");
        }
        for pods in objects.pods() {
            assert_eq!(pods.spec["automountServiceAccountToken"], false, "{name}");
            let with_token = |volume: &&Value| {
                let sources = list(&volume["projected"]["sources"]);
                sources
                    .iter()
                    .any(|source| source["serviceAccountToken"].is_object())
            };
            let volumes: Vec<_> = list(&pods.spec["volumes"])
                .iter()
                .filter(with_token)
                .collect();
            let ours = pods.spec.get("serviceAccountName").is_some();
            assert_eq!(volumes.len(), usize::from(ours), "{name}: {}", pods.name());
            for volume in volumes {
                let token = &volume["projected"]["sources"][0]["serviceAccountToken"];
                assert_eq!(token["path"], "token");
                assert_eq!(token["expirationSeconds"], 1800);
                // Of the daemon's processes, one talks to the API server.
                let of_others = |container: &&Value| {
                    pods.name() != "DaemonSet tetris-node" || container["name"] == "cluster"
                };
                for container in pods.containers().filter(of_others) {
                    let mut mounts = list(&container["volumeMounts"]).iter();
                    let mount = mounts
                        .find(|mount| mount["name"] == volume["name"])
                        .unwrap();
                    let expected = "/var/run/secrets/kubernetes.io/serviceaccount";
                    assert_eq!(mount["mountPath"], expected, "{name}");
                    assert_eq!(mount["readOnly"], true, "{name}");
                }
            }
        }
    }
}
