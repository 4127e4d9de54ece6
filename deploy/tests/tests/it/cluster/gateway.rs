//! A function at zero behind the gateway: its first request is answered, a step of load starts more
//! instances, gateways and instances are replaced under load, no request fails, and at the end it is
//! at zero again.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_definitions, wait_for_rollout,
};

const NAMESPACE: &str = "tetris-e2e-gateway";
const IMAGE: &str = "TETRIS_IMAGE_PYTHON";
/// Asks at fixed rates, each for a time, or until it is asked to end where that is 0. Prints the number of
/// requests, of answers by status, and of connections that a gateway closed before a request was sent whole
/// on them or answered (HTTP/1.1 permits that between two requests: the request goes out again, once), and
/// the seconds of a single first answer, as JSON.
const CLIENT: &str = r#"
import collections, http.client, json, signal, sys, threading, time
statuses, firsts, lock = collections.Counter(), [], threading.Lock()
asked, reopened, over = 0, 0, threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
local = threading.local()
def exchange(connection):
    connection.request("POST", "/functions/tetris-e2e-gateway/served/infer", b"{}")
    return connection.getresponse()
def opened():
    local.connection = http.client.HTTPConnection("tetris-gateway.tetris-system", timeout=120)
    return local.connection
def answered():
    global reopened
    used = getattr(local, "connection", None)
    if used is not None and used.sock is not None:
        try:
            return exchange(used)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            with lock:
                reopened += 1
    return exchange(opened())
def ask(first):
    global asked
    began = time.monotonic()
    try:
        response = answered()
        response.read()
        status = str(response.status)
    except (OSError, http.client.HTTPException) as error:
        local.connection = None
        status = type(error).__name__
    with lock:
        asked += 1
        statuses[status] += 1
        if first:
            firsts.append(round(time.monotonic() - began, 3))
def worker(due, first):
    for at in due:
        if over.wait(max(0, at - time.monotonic())):
            return
        ask(first)
for step in sys.argv[1:]:
    rate, seconds = map(int, step.split(":"))
    begin = time.monotonic()
    number = max(1, rate * seconds) if seconds else sys.maxsize
    count = min(64, number)
    def due(at):
        return (begin + one / rate for one in range(at, number, count))
    threads = [threading.Thread(target=worker, args=(due(at), number == 1)) for at in range(count)]
    [one.start() for one in threads]
    [one.join() for one in threads]
print(json.dumps({"asked": asked, "statuses": statuses, "reopened": reopened, "first_seconds": firsts}))
"#;

/// Asks a gateway once for each pair of a path and a token, of which the empty one is none, after the first pair has the status that
/// is given. Prints the statuses as JSON.
const STRANGER: &str = r#"
import http.client, json, sys, time
host, first, *pairs = sys.argv[1:]
def ask(path, token):
    connection = http.client.HTTPConnection(host, 8080, timeout=120)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("POST", "/functions/tetris-e2e-gateway/served" + path, b"{}", headers)
    return connection.getresponse().status
end = time.monotonic() + 60
while ask(*pairs[:2]) != int(first) and time.monotonic() < end:
    time.sleep(0.2)
print(json.dumps([ask(path, token) for path, token in zip(pairs[::2], pairs[1::2])]))
"#;
/// Namespace of pods that the function is not for.
const ELSEWHERE: &str = "default";

#[test]
fn a_function_serves_from_zero_and_goes_back() {
    on_the_cluster(|| {
        let Ok(python) = std::env::var(IMAGE) else {
            skipped(&format!("{IMAGE} names no image"));
            return Ok(());
        };
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            "namespace/tetris-e2e-gateway",
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
            image("TETRIS_IMAGE_GATEWAY", "tetris-gateway"),
        ];
        let install = Objects::rendered("tests/cluster/gateway", &images)?;
        let _install = Applied::new("the install with the gateway", install)?;
        follow(&python).map_err(|error| error.context(state()))
    });
}

fn follow(python: &str) -> Result<()> {
    wait_for_definitions()?;
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    wait_for_rollout("deployment/tetris-gateway")?;
    let function = Applied::new("the function", served(python)?)?;
    wait_for("the gateways to be known, and no load", || {
        let function = Kubectl.json(&["get", "inferencefunction/served", "-n", NAMESPACE])?;
        let mut conditions = list(&function["status"]["conditions"]).iter();
        let known = conditions.find(|condition| condition["type"] == "LoadKnown");
        ensure!(
            known.is_some_and(|condition| condition["status"] == "True"),
            "{}",
            function["status"]
        );
        Ok(())
    })?;
    ensure!(
        replicas()? == 0,
        "a function without requests has instances"
    );
    let first = client("first", python, &["1:1"])?;
    told(&format!("from zero: {first}"));
    ensure!(first["statuses"] == json!({"200": 1}), "{first}");
    strangers(python)?;
    start_client("step", python, &["20:10", "200:40"])?;
    wait_for("instances for 200 requests/s", || {
        let count = replicas()?;
        ensure!(count >= 3, "{count}");
        Ok(())
    })?;
    let step = result_of("step")?;
    told(&format!("a step of load: {step}"));
    ensure!(
        step["statuses"] == json!({"200": 20 * 10 + 200 * 40}),
        "{step}"
    );
    roll(python)?;
    wait_for("no instances", || {
        let count = replicas()?;
        ensure!(count == 0, "{count}");
        Ok(())
    })?;
    function.remove()
}

/// A pod of another namespace is refused without a token of the function's namespace, and all pods at other paths.
fn strangers(python: &str) -> Result<()> {
    let token = |namespace: &str| {
        let audience = "--audience=tetris-gateway";
        let token = Kubectl.run(&["create", "token", "default", "-n", namespace, audience])?;
        Ok::<_, anyhow::Error>(token.trim().to_owned())
    };
    let (own, other) = (token(NAMESPACE)?, token(ELSEWHERE)?);
    let gateways = pods("app.kubernetes.io/name=tetris-gateway", SYSTEM)?;
    let gateway = gateways.first().context("no gateway")?;
    let host = text(&gateway["status"]["podIP"]);
    let pairs = [
        "/infer", "", "/infer", &own, "/infer", &other, "/ready", &own,
    ];
    open_to(&Value::Null)?;
    let asked = [&[host, "403"][..], &pairs].concat();
    let elsewhere = asks(ELSEWHERE, "stranger", python, STRANGER, &asked)?;
    told(&format!("a pod of another namespace: {elsewhere}"));
    ensure!(elsewhere == json!([403, 200, 403, 404]), "{elsewhere}");
    let asked = [host, "200", "/infer", "", "/../ready", ""];
    let here = asks(NAMESPACE, "local", python, STRANGER, &asked)?;
    ensure!(here == json!([200, 404]), "{here}");
    open_to(&json!({"anyone": true}))?;
    for gateway in &gateways {
        let name = text(&gateway["metadata"]["name"]);
        let host = text(&gateway["status"]["podIP"]);
        let asked = [host, "200", "/infer", ""];
        let anyone = asks(ELSEWHERE, &format!("of-{name}"), python, STRANGER, &asked)?;
        ensure!(anyone == json!([200]), "{anyone}");
        Kubectl.run(&[
            "delete",
            &format!("pod/of-{name}"),
            "-n",
            ELSEWHERE,
            "--wait=false",
        ])?;
    }
    Kubectl.run(&["delete", "pod/stranger", "-n", ELSEWHERE, "--wait=false"])?;
    Ok(())
}

/// Changes the callers of the function.
fn open_to(callers: &Value) -> Result<()> {
    let patch = json!({"spec": {"callers": callers}}).to_string();
    let function = "inferencefunction/served";
    Kubectl.run(&[
        "patch",
        function,
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        &patch,
    ])?;
    Ok(())
}

/// Replaces both gateways, and then all instances, while requests go on.
fn roll(python: &str) -> Result<()> {
    start_client("rolls", python, &["40:0"])?;
    wait_for("instances for 40 requests/s", || {
        let instances = pods("tetris.dev/function=served", NAMESPACE)?;
        ensure!(!instances.is_empty() && instances.iter().all(is_ready));
        Ok(())
    })?;
    let gateways = || pods("app.kubernetes.io/name=tetris-gateway", SYSTEM);
    replaced("gateways", gateways, || {
        let deployment = "deployment/tetris-gateway";
        Kubectl.run(&["rollout", "restart", "-n", SYSTEM, deployment])
    })?;
    let instances = || pods("tetris.dev/function=served", NAMESPACE);
    replaced("instances", instances, || {
        let patch =
            json!({"spec": {"template": {"metadata": {"annotations": {"rolled": "once"}}}}});
        let function = "inferencefunction/served";
        Kubectl.run(&[
            "patch",
            function,
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            &patch.to_string(),
        ])
    })?;
    let end = "import os, signal; os.kill(1, signal.SIGTERM)";
    Kubectl.run(&[
        "exec",
        "pod/rolls",
        "-n",
        NAMESPACE,
        "--",
        "python3",
        "-c",
        end,
    ])?;
    let rolls = result_of("rolls")?;
    told(&format!(
        "gateways and instances replaced under load: {rolls}"
    ));
    ensure!(rolls["asked"].as_u64() > Some(0), "{rolls}");
    ensure!(
        rolls["statuses"] == json!({"200": rolls["asked"]}),
        "{rolls}"
    );
    Ok(())
}

/// Has all of some pods replaced, and waits until only new ones are there, all ready.
fn replaced(
    what: &str,
    found: impl Fn() -> Result<Vec<Value>>,
    replace: impl Fn() -> Result<String>,
) -> Result<()> {
    let before: Vec<Value> = found()?
        .iter()
        .map(|pod| pod["metadata"]["uid"].clone())
        .collect();
    replace()?;
    wait_for(&format!("other {what}"), || {
        let now = found()?;
        ensure!(!now.is_empty());
        for pod in &now {
            let name = text(&pod["metadata"]["name"]);
            ensure!(
                !before.contains(&pod["metadata"]["uid"]),
                "{name} is still there"
            );
            ensure!(is_ready(pod), "{name} is not ready");
        }
        Ok(())
    })
}

fn pods(selector: &str, namespace: &str) -> Result<Vec<Value>> {
    let list_of_pods = Kubectl.json(&["get", "pods", "-n", namespace, "-l", selector])?;
    Ok(list(&list_of_pods["items"]).to_vec())
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]).iter();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Prints a figure, also when the test passes.
fn told(what: &str) {
    let _closed = writeln!(std::io::stderr(), "{what}");
}

/// The function, with its servers' image.
pub fn served(image: &str) -> Result<Objects> {
    let mut objects = Objects::parse(include_str!("../../../cluster/served.yaml"))?;
    let mut all = objects.0.iter_mut();
    let function = all.find(|object| object["kind"] == "InferenceFunction");
    let spec = &mut function.context("no function")?["spec"]["template"]["spec"];
    spec["containers"][0]["image"] = image.into();
    Ok(objects)
}

fn replicas() -> Result<u64> {
    let listed = Kubectl.json(&["get", "deployments", "-n", NAMESPACE])?;
    let deployments = list(&listed["items"]).iter();
    let counts = deployments.map(|entry| entry["spec"]["replicas"].as_u64().unwrap_or_default());
    Ok(counts.sum())
}

fn client(name: &str, image: &str, steps: &[&str]) -> Result<Value> {
    asks(NAMESPACE, name, image, CLIENT, steps)
}

fn asks(
    namespace: &str,
    name: &str,
    image: &str,
    program: &str,
    arguments: &[&str],
) -> Result<Value> {
    start(namespace, name, image, program, arguments)?;
    result_in(namespace, name)
}

fn start_client(name: &str, image: &str, steps: &[&str]) -> Result<()> {
    start(NAMESPACE, name, image, CLIENT, steps)
}

fn start(
    namespace: &str,
    name: &str,
    image: &str,
    program: &str,
    arguments: &[&str],
) -> Result<()> {
    let command = [&["python3", "-c", program][..], arguments].concat();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "client", "image": image, "imagePullPolicy": "IfNotPresent", "command": command,
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    Kubectl.with_objects(&["apply", "--server-side"], &Objects(vec![pod]))
}

fn result_of(name: &str) -> Result<Value> {
    result_in(NAMESPACE, name)
}

fn result_in(namespace: &str, name: &str) -> Result<Value> {
    let pod = format!("pod/{name}");
    wait_for("the client to end", || {
        let pod = Kubectl.json(&["get", &pod, "-n", namespace])?;
        let phase = text(&pod["status"]["phase"]);
        ensure!(phase == "Succeeded" || phase == "Failed", "{phase}");
        Ok(())
    })?;
    let logs = Kubectl.run(&["logs", &pod, "-n", namespace])?;
    serde_json::from_str(logs.trim()).with_context(|| format!("the client said {logs}"))
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "inferencefunctions", "-n", NAMESPACE, "-o", "yaml"],
        &["get", "events", "-n", NAMESPACE],
        &[
            "logs",
            "-n",
            SYSTEM,
            "deployment/tetris-scaler",
            "--tail=50",
        ],
        &[
            "logs",
            "-n",
            SYSTEM,
            "deployment/tetris-gateway",
            "--tail=50",
        ],
    ])
}
