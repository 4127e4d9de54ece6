//! Rights of components at the API server: exactly those that they need.

use serde_json::{Value, json};
use tetris_deploy_tests::kustomize::{INSTALLS, RENDERED, WITH_SCALER};
use tetris_deploy_tests::objects::{Objects, list, text};

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

#[test]
fn the_daemon_may_read_pods_and_namespaces_check_tokens_and_nothing_else() {
    let rules = node();
    let others = |name: &&str| *name == "webhook" || WITH_SCALER.contains(name);
    for name in INSTALLS.into_iter().filter(|name| !others(name)) {
        let objects = Objects::golden(name);
        assert_eq!(
            roles(&objects),
            [("ClusterRole", "tetris-node", &rules)],
            "{name}"
        );
    }
}

#[test]
fn the_webhook_may_keep_one_secret_and_fill_in_one_configuration() {
    let node = node();
    let configuration = json!([{
        "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": ["tetris-webhook"], "verbs": ["get", "patch"]}]);
    let secret = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tetris-webhook-tls"],
         "verbs": ["get", "update"]}]);
    let expected = [
        ("ClusterRole", "tetris-node", &node),
        ("ClusterRole", "tetris-webhook", &configuration),
        ("Role", "tetris-webhook", &secret),
    ];
    assert_eq!(roles(&Objects::golden("webhook")), expected);
}

#[test]
fn the_scaler_may_do_what_the_operator_does_and_nothing_else() {
    let node = node();
    let cluster = json!([
        {"apiGroups": ["tetris.dev"], "resources": ["inferencefunctions", "modelprofiles"],
         "verbs": ["list", "watch"]},
        {"apiGroups": ["tetris.dev"], "resources": ["inferencefunctions/status"], "verbs": ["patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"],
         "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]);
    let leases = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["tetris-scaler"],
         "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["tetris-scaler"],
         "verbs": ["create"]}]);
    for name in WITH_SCALER {
        let expected = [
            ("ClusterRole", "tetris-node", &node),
            ("ClusterRole", "tetris-scaler", &cluster),
            ("Role", "tetris-scaler", &leases),
        ];
        assert_eq!(roles(&Objects::golden(name)), expected, "{name}");
    }
}

#[test]
fn each_role_is_bound_to_the_account_of_its_name() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for (kind, role, _) in roles(&objects) {
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
fn a_token_is_mounted_where_it_is_used_alone() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for account in objects.all("ServiceAccount") {
            assert_eq!(account["automountServiceAccountToken"], false, "{name}");
        }
        for pods in objects.pods() {
            let ours = pods.spec.get("serviceAccountName").is_some();
            assert_eq!(
                pods.spec["automountServiceAccountToken"],
                ours,
                "{name}: {}",
                pods.name()
            );
        }
        assert!(
            list(&json!(objects.0))
                .iter()
                .all(|object| object["kind"] != "Secret"),
            "{name}"
        );
    }
}
