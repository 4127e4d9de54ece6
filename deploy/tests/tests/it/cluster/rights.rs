//! Rights on a real API server: the webhook and the scaler work with the tokens of their accounts, and a thief of such a token can do
//! nothing else. No image is needed: the programs run here.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::attacks::{self, GATES, SCALER, WEBHOOK};
use crate::cluster::account::{Account, Answer};
use crate::cluster::install::{
    APPLY, Applied, SYSTEM, look_at, on_the_cluster, require_absent, wait_for_definitions,
};
use crate::cluster::program::Program;
use crate::cluster::scaling::add_tensors;

const NODE: &str = "system:serviceaccount:tetris-system:tetris-node";
/// A namespace that lets the scaler write.
const OPEN: &str = "tetris-e2e-scaler";
/// One that does not.
const CLOSED: &str = "default";
const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tetris-webhook";
const SECRETS: &str = "/api/v1/namespaces/tetris-system/secrets";
const FUNCTION: &str = "inferencefunction/held";

#[test]
fn components_work_with_their_rights_and_a_stolen_token_does_nothing_else() {
    on_the_cluster(|| {
        require_absent(&[
            "namespace/tetris-system",
            "namespace/tetris-e2e-scaler",
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
        ])?;
        let (namespace, install) = install()?;
        let _namespace = Applied::new("the namespace", namespace)?;
        // As an install has it whose webhook created it by itself.
        Kubectl.with_objects(&["create"], &Objects(vec![earlier_secret()]))?;
        let install = Applied::new("the rights", install)?;
        let mut function = Objects::rendered("tests/cluster/function", &[])?;
        add_tensors(&mut function)?;
        try_it(&install.objects, function).map_err(|error| error.context(state()))
    });
}

/// The namespace, and all that is installed but the pods.
fn install() -> Result<(Objects, Objects)> {
    let mut all = Vec::new();
    for base in ["base/node", "base/webhook", "base/scaler"] {
        all.extend(Objects::rendered(base, &[])?.0);
    }
    let pods = [
        "DaemonSet",
        "Deployment",
        "PodDisruptionBudget",
        "CSIDriver",
    ];
    all.retain(|object| !pods.contains(&text(&object["kind"])));
    let (namespace, others) = all
        .into_iter()
        .partition(|object| object["kind"] == "Namespace");
    Ok((Objects(namespace), Objects(others)))
}

fn earlier_secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {
            "name": "tetris-webhook-tls", "namespace": SYSTEM,
            "labels": {"app.kubernetes.io/name": "tetris-webhook"},
        },
        "data": {"tls.crt": "", "tls.key": ""},
    })
}

fn try_it(install: &Objects, function: Objects) -> Result<()> {
    wait_for_definitions()?;
    let webhook = Account::new(WEBHOOK)?;
    wait_for("the policies to be in force", || {
        let mut secret = Kubectl.json(&["get", "secret", "tetris-webhook-tls", "-n", SYSTEM])?;
        secret["metadata"]["labels"] = json!({});
        let answer = webhook.replace(&format!("{SECRETS}/tetris-webhook-tls"), &secret)?;
        ensure!(matches!(answer, Answer::Policy(_)), "{answer}");
        Ok(())
    })?;
    require_policies_without_warnings()?;
    // The one of an earlier install is kept; afterwards it is as the manifests have it.
    require_certificates("kubernetes.io/tls")?;
    Kubectl.run(&["delete", "secret", "tetris-webhook-tls", "-n", SYSTEM])?;
    let mut secret = install.clone();
    secret.0.retain(|object| object["kind"] == "Secret");
    Kubectl.with_objects(&APPLY, &secret)?;
    require_certificates("Opaque")?;
    // Applied again, nothing that the webhook wrote is lost.
    let before = data()?;
    Kubectl.with_objects(&APPLY, install)?;
    ensure!(data()? == before, "the Secret was overwritten");
    require_a_bound_webhook(&webhook)?;

    let function = Applied::new("the function", function)?;
    require_a_function_to_run()?;
    require_rights()?;
    require_a_bound_scaler(&Account::new(SCALER)?)?;
    function.remove()
}

/// That the API server's own look at the expressions found no field that is not there.
fn require_policies_without_warnings() -> Result<()> {
    let policies = wait_for("the policies to be looked at", || {
        let policies = Kubectl.json(&["get", "validatingadmissionpolicies"])?;
        let mut ours = list(&policies["items"]).to_vec();
        ours.retain(|policy| text(&policy["metadata"]["name"]).starts_with("tetris-"));
        ensure!(ours.len() == 8, "{} policies", ours.len());
        let seen = |policy: &Value| policy["status"]["observedGeneration"].is_u64();
        ensure!(ours.iter().all(seen), "not looked at yet");
        Ok(ours)
    })?;
    for policy in policies {
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        ensure!(
            list(warnings).is_empty(),
            "{}: {warnings}",
            policy["metadata"]["name"]
        );
    }
    Ok(())
}

/// Two replicas that start at once agree on certificates, and tell the API server.
fn require_certificates(secret_type: &str) -> Result<()> {
    let arguments = [
        "run",
        "--namespace",
        SYSTEM,
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
    ];
    let replicas = [
        Program::start("tetris-webhook", &arguments)?,
        Program::start("tetris-webhook", &arguments)?,
    ];
    wait_for("both replicas to serve a trusted certificate", || {
        for replica in &replicas {
            let log = replica.log();
            ensure!(log.contains("serving a certificate"), "{log}");
        }
        Ok(())
    })?;
    for replica in &replicas {
        let log = replica.log();
        ensure!(!log.contains("WARN"), "{log}");
    }
    let secret = Kubectl.json(&["get", "secret", "tetris-webhook-tls", "-n", SYSTEM])?;
    ensure!(secret["type"] == secret_type, "{}", secret["type"]);
    for field in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
        ensure!(!text(&secret["data"][field]).is_empty(), "no {field}");
    }
    let configuration = configuration()?;
    for webhook in list(&configuration["webhooks"]) {
        let bundle = &webhook["clientConfig"]["caBundle"];
        ensure!(*bundle == secret["data"]["ca.crt"], "caBundle: {bundle}");
    }
    Ok(())
}

fn data() -> Result<Value> {
    let secret = Kubectl.json(&["get", "secret", "tetris-webhook-tls", "-n", SYSTEM])?;
    Ok(secret["data"].clone())
}

fn configuration() -> Result<Value> {
    Kubectl.json(&["get", "mutatingwebhookconfiguration", "tetris-webhook"])
}

fn require_a_bound_webhook(webhook: &Account) -> Result<()> {
    let configuration = configuration()?;
    for (what, change) in attacks::of_the_configuration() {
        let mut new = configuration.clone();
        change(&mut new);
        webhook.require_policy(what, webhook.patch(CONFIGURATION, &configuration, &new))?;
    }
    let mut renewed = configuration.clone();
    renewed["webhooks"][0]["clientConfig"]["caBundle"] = "c2Vjb25k".into();
    let answer = webhook.patch(CONFIGURATION, &configuration, &renewed);
    webhook.require_allowed("a caBundle", answer)?;
    webhook.require_no_right("a replacement", webhook.replace(CONFIGURATION, &renewed))?;
    webhook.require_no_right("no configuration", webhook.delete(CONFIGURATION))?;

    let secret = Kubectl.json(&["get", "secret", "tetris-webhook-tls", "-n", SYSTEM])?;
    let path = format!("{SECRETS}/tetris-webhook-tls");
    for (what, change) in attacks::of_the_secret() {
        let mut new = secret.clone();
        change(&mut new);
        webhook.require_policy(what, webhook.replace(&path, &new))?;
    }
    let mut renewed = secret.clone();
    renewed["data"]["tls.crt"] = "bmV3".into();
    webhook.require_allowed("its data", webhook.replace(&path, &renewed))?;
    webhook.require_no_right("no Secret", webhook.delete(&path))?;
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "stolen", "annotations": {"kubernetes.io/service-account.name": "tetris-node"}},
    });
    webhook.require_no_right("another account's token", webhook.create(SECRETS, &token))
}

/// The operator describes what to do where it may not write; where it may, it creates and scales a Deployment.
fn require_a_function_to_run() -> Result<()> {
    let binding = ["rolebinding", "tetris-scaler", "-n", OPEN];
    Kubectl.run(&[&["delete"], &binding[..]].concat())?;
    let operator = Program::start(
        "tetris-scaler",
        &[
            "run",
            "--namespace",
            SYSTEM,
            "--interval-seconds",
            "1",
            "--consolidate-after-seconds",
            "0",
            "--listen",
            "127.0.0.1:0",
            "--keda-listen",
            "127.0.0.1:0",
        ],
    )?;
    let told = wait_for("the status to say what to do", || {
        let function = Kubectl.json(&["get", FUNCTION, "-n", OPEN])?;
        let told = text(&function["status"]["message"]).to_owned();
        let log = operator.log();
        ensure!(
            told.contains("kubectl create rolebinding"),
            "{told:?}\n{log}"
        );
        Ok(told)
    })?;
    let (_, command) = told.split_once("kubectl ").context("no command")?;
    Kubectl.run(&command.split_whitespace().collect::<Vec<_>>())?;
    wait_for_replicas(&operator, 2)?;
    // Fewer again, and none, are for tests with pods that become ready.
    let load = json!({"spec": {"load": {"static": {"requestsPerSecond": 70}}}}).to_string();
    Kubectl.run(&["patch", FUNCTION, "-n", OPEN, "--type=merge", "-p", &load])?;
    wait_for_replicas(&operator, 4)?;
    let log = operator.log();
    let events = Kubectl.json(&["get", "events.events.k8s.io", "-n", OPEN])?;
    let mut events = list(&events["items"]).iter();
    ensure!(
        events.any(|event| event["reason"] == "ScaledOut"),
        "no event\n{log}"
    );
    ensure!(!log.contains("ValidatingAdmissionPolicy"), "{log}");
    Ok(())
}

/// Waits for replicas of the one Deployment that has any.
fn wait_for_replicas(operator: &Program, replicas: u64) -> Result<()> {
    wait_for(&format!("{replicas} replicas"), || {
        let deployments = Kubectl.json(&["get", "deployments", "-n", OPEN])?;
        let items = list(&deployments["items"]).iter();
        let mut counts: Vec<_> = items
            .filter_map(|entry| entry["spec"]["replicas"].as_u64())
            .collect();
        counts.retain(|replicas| *replicas > 0);
        ensure!(counts == [replicas], "{counts:?}\n{}", operator.log());
        Ok(())
    })
}

fn require_a_bound_scaler(scaler: &Account) -> Result<()> {
    for namespace in [OPEN, CLOSED] {
        let objects = Objects(vec![
            attacks::deployment(namespace),
            attacks::another_deployment(namespace),
            attacks::instance(namespace),
            attacks::another_pod(namespace),
        ]);
        // The garbage collector would end what has an owner that is not there.
        let objects = without_owners(objects);
        let applied = Applied::new("victims", objects)?;
        let tried = match namespace {
            OPEN => require_its_own_objects(scaler).and_then(|()| require_its_models(scaler)),
            _ => require_nothing(scaler),
        };
        tried?;
        applied.remove()?;
    }
    let mut request = attacks::token_request();
    request["spec"]["audiences"] = json!(["https://kubernetes.default.svc"]);
    let path = "/api/v1/namespaces/tetris-system/serviceaccounts/tetris-scaler/token";
    let answer = scaler.create(path, &request);
    scaler.require_policy("a token for the API server", answer)
}

fn without_owners(mut objects: Objects) -> Objects {
    for object in &mut objects.0 {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
    }
    objects
}

fn paths(namespace: &str) -> [String; 3] {
    [
        format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        format!("/api/v1/namespaces/{namespace}/pods"),
        format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
    ]
}

/// In a namespace that lets it write.
fn require_its_own_objects(scaler: &Account) -> Result<()> {
    let [deployments, pods, events] = paths(OPEN);
    let get = |what: &str| Kubectl.json(&["get", what, "-n", OPEN]);
    let victim = get("deployment/victim")?;
    let path = format!("{deployments}/victim");
    for (what, change) in attacks::of_another_deployment() {
        let mut new = victim.clone();
        change(&mut new);
        scaler.require_policy(what, scaler.patch(&path, &victim, &new))?;
    }
    scaler.require_policy("another's Deployment deleted", scaler.delete(&path))?;
    // With name and labels of a function's, as KEDA's users write it.
    let users = get("deployment/f-c1-b1-p1")?;
    let path = format!("{deployments}/f-c1-b1-p1");
    for (what, change) in attacks::of_another_deployment() {
        let mut new = users.clone();
        change(&mut new);
        scaler.require_policy(what, scaler.patch(&path, &users, &new))?;
    }
    scaler.require_policy("a user's Deployment deleted", scaler.delete(&path))?;

    let function = get(FUNCTION)?;
    let mut wanted = attacks::deployment(OPEN);
    wanted["metadata"]["name"] = "held-c1-b1-p1".into();
    for at in [
        "/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        let labels = wanted.pointer_mut(at).context("no labels")?;
        labels["tetris.dev/function"] = "held".into();
    }
    wanted["metadata"]["ownerReferences"][0]["name"] = "held".into();
    wanted["metadata"]["ownerReferences"][0]["uid"] = function["metadata"]["uid"].clone();
    scaler.require_allowed("its own Deployment", scaler.create(&deployments, &wanted))?;
    for (what, spoil) in attacks::of_a_new_deployment() {
        let mut new = wanted.clone();
        spoil(&mut new);
        scaler.require_policy(what, scaler.create(&deployments, &new))?;
    }
    let applied = Applied::new("a Deployment of the function", Objects(vec![wanted]))?;
    let deployment = get("deployment/held-c1-b1-p1")?;
    let path = format!("{deployments}/held-c1-b1-p1");
    for (what, change) in attacks::of_its_deployment() {
        let mut new = deployment.clone();
        change(&mut new);
        scaler.require_policy(what, scaler.patch(&path, &deployment, &new))?;
    }
    let mut more = deployment.clone();
    more["spec"]["replicas"] = 3.into();
    scaler.require_allowed("replicas", scaler.patch(&path, &deployment, &more))?;
    scaler.require_allowed("its own Deployment deleted", scaler.delete(&path))?;
    applied.remove()?;

    let instance = get("pod/instance")?;
    let path = format!("{pods}/instance");
    for (what, change) in attacks::of_an_instance() {
        let mut new = instance.clone();
        change(&mut new);
        scaler.require_policy(what, scaler.patch(&path, &instance, &new))?;
    }
    let victim = get("pod/victim")?;
    for (what, mark) in attacks::marks() {
        let mut new = instance.clone();
        mark(&mut new);
        scaler.require_allowed(what, scaler.patch(&path, &instance, &new))?;
        let mut new = victim.clone();
        mark(&mut new);
        let answer = scaler.patch(&format!("{pods}/victim"), &victim, &new);
        scaler.require_policy(what, answer)?;
    }
    // Its owner is no ReplicaSet.
    scaler.require_policy("a pod deleted", scaler.delete(&path))?;
    let answer = scaler.delete(&format!("{pods}/victim"));
    scaler.require_policy("a user's pod deleted", answer)?;
    scaler.require_no_right("a pod", scaler.create(&pods, &attacks::another_pod(OPEN)))?;

    let event = attacks::event(OPEN);
    scaler.require_allowed("its event", scaler.create(&events, &event))?;
    for (what, spoil) in attacks::of_an_event() {
        let mut new = event.clone();
        spoil(&mut new);
        scaler.require_policy(what, scaler.create(&events, &new))?;
    }
    Ok(())
}

/// DaemonSets of models, in a namespace that lets it write them as well.
fn require_its_models(scaler: &Account) -> Result<()> {
    let servers = format!("/apis/apps/v1/namespaces/{OPEN}/daemonsets");
    let template = Kubectl.json(&["get", "podtemplate", "tetris-model", "-n", SYSTEM])?;
    let model = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "Model",
        "metadata": {"name": "m", "namespace": OPEN}, "spec": {"source": "hf://org/m"},
    });
    let _model = Applied::new("the model", Objects(vec![model]))?;
    let model = Kubectl.json(&["get", "model", "m", "-n", OPEN])?;
    let mut server = attacks::model_server(OPEN, &template);
    server["metadata"]["ownerReferences"][0]["uid"] = model["metadata"]["uid"].clone();
    scaler.require_no_right("a DaemonSet", scaler.create(&servers, &server))?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "tetris-scaler-models", "namespace": OPEN},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "tetris-scaler-models",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "tetris-scaler", "namespace": SYSTEM}],
    });
    let _binding = Applied::new("the right for models", Objects(vec![binding]))?;
    wait_for("the right for models", || {
        scaler.require_allowed("its own DaemonSet", scaler.create(&servers, &server))
    })?;
    let _server = Applied::new("the DaemonSet", Objects(vec![server.clone()]))?;
    let stored = Kubectl.json(&["get", "daemonset", "m-0a1b2c3d4e", "-n", OPEN])?;
    let path = format!("{servers}/m-0a1b2c3d4e");
    for (what, spoil) in attacks::of_a_model_server() {
        let mut new = server.clone();
        spoil(&mut new);
        new["metadata"]["name"] = "m-1111111111".into();
        for at in [
            "/metadata/labels",
            "/spec/selector/matchLabels",
            "/spec/template/metadata/labels",
        ] {
            let labels = new.pointer_mut(at).context("no labels")?;
            if labels.get("tetris.dev/model-content").is_some() {
                labels["tetris.dev/model-content"] = "1111111111".into();
            }
        }
        scaler.require_policy(what, scaler.create(&servers, &new))?;
        // A selector cannot be changed by anyone.
        if what != "a wider selector" {
            let mut new = stored.clone();
            spoil(&mut new);
            scaler.require_policy(what, scaler.patch(&path, &stored, &new))?;
        }
    }
    let mut narrowed = stored.clone();
    narrowed["spec"]["template"]["spec"]["nodeSelector"]["kind"] = "cpu".into();
    scaler.require_allowed("other nodes", scaler.patch(&path, &stored, &narrowed))?;
    scaler.require_allowed("its own DaemonSet deleted", scaler.delete(&path))
}

/// In a namespace that does not let it write.
fn require_nothing(scaler: &Account) -> Result<()> {
    let [deployments, pods, events] = paths(CLOSED);
    let deployment = attacks::deployment(CLOSED);
    scaler.require_no_right("a Deployment", scaler.create(&deployments, &deployment))?;
    let (none, scaled) = (json!({}), json!({"spec": {"replicas": 0}}));
    for name in ["victim", "f-c1-b1-p1"] {
        let path = format!("{deployments}/{name}");
        scaler.require_no_right(name, scaler.patch(&path, &none, &scaled))?;
        scaler.require_no_right(name, scaler.delete(&path))?;
    }
    let marked = json!({"metadata": {"annotations": {"tetris.dev/retiring": "true"}}});
    let answer = scaler.patch(&format!("{pods}/instance"), &none, &marked);
    scaler.require_no_right("a mark", answer)?;
    scaler.require_no_right("an event", scaler.create(&events, &attacks::event(CLOSED)))?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "more"},
    });
    let leases = "/apis/coordination.k8s.io/v1/namespaces/tetris-system/leases";
    scaler.require_no_right("a lease", scaler.create(leases, &lease))
}

/// Answers of `kubectl auth can-i`: account, namespace, and verbs with resources that it may, and may not.
fn require_rights() -> Result<()> {
    let rows: [(&str, &str, &[&str], &[&str]); 9] = [
        (
            WEBHOOK,
            SYSTEM,
            &[
                "get secrets/tetris-webhook-tls",
                "update secrets/tetris-webhook-tls",
                "get mutatingwebhookconfigurations/tetris-webhook",
                "patch mutatingwebhookconfigurations/tetris-webhook",
            ],
            &[
                "create secrets",
                "list secrets",
                "delete secrets/tetris-webhook-tls",
                "update secrets/other",
                "create mutatingwebhookconfigurations",
                "update mutatingwebhookconfigurations/tetris-webhook",
                "patch mutatingwebhookconfigurations/other",
                "patch validatingadmissionpolicies/tetris-webhook-secret",
                "delete validatingadmissionpolicybindings/tetris-webhook-secret",
                "create serviceaccounts/token",
                "create pods",
                "update clusterroles",
                "impersonate users",
            ],
        ),
        (
            WEBHOOK,
            CLOSED,
            &[],
            &["get secrets/tetris-webhook-tls", "get pods"],
        ),
        (
            SCALER,
            SYSTEM,
            &["get leases/tetris-scaler", "update leases/tetris-scaler"],
            &[
                "create leases",
                "update leases/other",
                "create deployments.apps",
                "patch deployments.apps",
                "patch pods",
                "get secrets",
                "create events.events.k8s.io",
            ],
        ),
        (
            SCALER,
            OPEN,
            &[
                "get deployments.apps",
                "create deployments.apps",
                "patch deployments.apps",
                "delete deployments.apps",
                "patch pods",
                "delete pods",
                "create events.events.k8s.io",
                "patch events.events.k8s.io",
            ],
            &[
                "update deployments.apps",
                "create pods",
                "create pods/exec",
                "patch inferencefunctions.tetris.dev",
                "create rolebindings",
                "get secrets",
            ],
        ),
        (
            SCALER,
            CLOSED,
            &[
                "list pods",
                "watch pods",
                "list nodes",
                "list deployments.apps",
                "list inferencefunctions.tetris.dev",
                "list modelprofiles.tetris.dev",
                "patch inferencefunctions.tetris.dev/status",
            ],
            &[
                "create deployments.apps",
                "patch deployments.apps",
                "delete deployments.apps",
                "patch pods",
                "patch nodes",
                "create events.events.k8s.io",
                "get configmaps",
            ],
        ),
        (
            GATES,
            OPEN,
            &["list pods", "watch pods", "patch pods"],
            &["delete pods", "create pods", "patch deployments.apps"],
        ),
        (
            GATES,
            CLOSED,
            &["list pods"],
            &["patch pods", "delete pods", "list nodes"],
        ),
        (
            NODE,
            CLOSED,
            &[
                "get pods",
                "list pods",
                "watch pods",
                "get namespaces",
                "list namespaces",
                "watch namespaces",
            ],
            &[
                "create pods",
                "patch pods",
                "delete pods",
                "create pods/exec",
                "get secrets",
                "get configmaps",
                "get nodes",
                "get nodes/proxy",
                "patch namespaces",
                "create events",
                "create serviceaccounts/token",
            ],
        ),
        (
            NODE,
            SYSTEM,
            &[],
            &["get secrets", "create pods", "patch daemonsets.apps"],
        ),
    ];
    for (account, namespace, may, may_not) in rows {
        for (what, expected) in [(may, "yes"), (may_not, "no")] {
            for right in what {
                let answer = can_i(account, namespace, right)?;
                ensure!(
                    answer == expected,
                    "{account} in {namespace}: {right}: {answer}"
                );
            }
        }
    }
    Ok(())
}

/// `yes` or `no`, for a verb and a resource with a name or subresource.
fn can_i(account: &str, namespace: &str, right: &str) -> Result<String> {
    let (verb, resource) = right.split_once(' ').context("no verb")?;
    let mut args = vec!["auth", "can-i", verb];
    let subresource;
    match resource.split_once('/') {
        Some((whole, part @ ("status" | "exec" | "proxy" | "token"))) => {
            subresource = format!("--subresource={part}");
            args.extend([whole, subresource.as_str()]);
        }
        _ => args.push(resource),
    }
    args.extend(["-n", namespace, "--as", account]);
    let output = Kubectl.output(&args)?;
    let said = String::from_utf8(output.stdout)?;
    let said = said.trim();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        matches!(said, "yes" | "no"),
        "kubectl {args:?}: {said} {errors}"
    );
    Ok(said.to_owned())
}

fn state() -> String {
    look_at(&[
        &["get", "validatingadmissionpolicies", "-o", "wide"],
        &["get", "inferencefunctions", "-A", "-o", "yaml"],
        &["get", "deployments,pods", "-n", OPEN, "-o", "wide"],
        &["get", "events", "-n", OPEN],
    ])
}
