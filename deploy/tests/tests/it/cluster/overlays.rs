//! The overlays as they are, each from its install to pods that share, and to nothing.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, StoreUse, get, wait_for};
use tetris_deploy_tests::model;
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::cluster::install::{
    Applied, SYSTEM, config_map, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::sharing::a_daemon;

const PORT: u16 = 9460;
const RUNTIME_CLASS: &str = "nvidia";
const LABEL: &str = "nvidia.com/gpu.present";
const STORE: &str = "/run/tetris/store";

/// Pods of one namespace, each of which holds the model.
struct Team {
    namespace: &'static str,
    /// Level of Pod Security.
    level: &'static str,
    pods: &'static [&'static str],
}

impl Team {
    /// In a namespace that permits nothing to its pods.
    fn restricted(namespace: &'static str, pods: &'static [&'static str]) -> Self {
        Self {
            namespace,
            level: "restricted",
            pods,
        }
    }

    /// The namespace and what is in it, with pods as `change` makes them.
    fn objects(
        &self,
        images: &[(&str, String)],
        change: impl Fn(&mut Value) -> Result<()>,
    ) -> Result<Objects> {
        let template = Objects::rendered("tests/cluster/pods", images)?;
        let template = template.one("Pod", "holder-a");
        let mut all = vec![
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {
                    "name": self.namespace,
                    "labels": {"pod-security.kubernetes.io/enforce": self.level},
                },
            }),
            // Pods may come before the controller has made it.
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": self.namespace},
            }),
            config_map(self.namespace)?,
        ];
        for name in self.pods {
            let mut pod = template.clone();
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["namespace"] = json!(self.namespace);
            change(&mut pod)?;
            all.push(pod);
        }
        Ok(Objects(all))
    }
}

#[test]
fn named_stores_are_for_the_namespaces_that_the_configuration_names() {
    on_the_cluster(|| {
        let teams = [
            Team::restricted("search-production", &["a", "b"]),
            Team::restricted("search-staging", &["a"]),
            Team::restricted("research", &["a"]),
            Team::restricted("tetris-e2e", &["a"]),
        ];
        let images = images("tetris-node", &teams)?;
        let install = Objects::rendered("overlays/dedicated", &images)?;
        let _install = Applied::new("the install", install)?;
        let daemon = a_running_daemon()?;
        let mut applied = Vec::new();
        for team in &teams {
            let objects = team.objects(&images, |_| Ok(()))?;
            applied.push(Applied::new("a team", objects)?);
        }
        let tried = wait_for("the teams to share", || {
            require_held(&daemon, "search", 3)?;
            require_held(&daemon, "research", 1)
        })
        .and_then(|()| wait_for("a reason", || require_reason("tetris-e2e")));
        tried.map_err(|error| error.context(state(&teams)))
    });
}

/// The kubelet's event lists the namespaces that the driver serves.
fn require_reason(namespace: &str) -> Result<()> {
    let events = Kubectl.json(&["get", "events", "-n", namespace])?;
    let expected = format!("namespace `{namespace}` may not use");
    let mut messages = list(&events["items"])
        .iter()
        .map(|event| text(&event["message"]));
    let is_said = messages.any(|message| message.contains(&expected));
    ensure!(is_said, "no event says `{expected}`: {events}");
    Ok(())
}

#[test]
fn pods_share_the_directory_of_the_node_that_development_has() {
    on_the_cluster(|| {
        let teams = [Team {
            namespace: "tetris-e2e",
            level: "privileged",
            pods: &["a", "b"],
        }];
        let images = images("tetris-node", &teams)?;
        let install = Objects::rendered("overlays/development", &images)?;
        let _install = Applied::new("the install", install)?;
        let daemon = a_running_daemon()?;
        let sample = Objects::rendered("samples/development", &[])?;
        let sample = sample.pods()[0].volume(&json!("tetris-store")).clone();
        let objects = teams[0].objects(&images, |pod| {
            let volumes = pod["spec"]["volumes"].as_array_mut();
            let volumes = volumes.context("no volumes")?;
            volumes.retain(|volume| volume["name"] != sample["name"]);
            volumes.push(sample.clone());
            Ok(())
        })?;
        let _pods = Applied::new("the pods", objects)?;
        wait_for("both pods to share", || require_held(&daemon, "dev", 2))
            .map_err(|error| error.context(state(&teams)))
    });
}

#[test]
fn pods_reach_the_mirror_of_a_simulated_device() {
    on_the_cluster(|| {
        let teams = [Team::restricted("tetris-e2e", &["a", "b"])];
        // The device is simulated, and needs no program that loads a driver.
        let images = images("tetris-node-gpu", &teams)?;
        let mut install = Objects::rendered("overlays/gpu", &images)?;
        simulate_device(&mut install)?;
        install.0.push(json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": RUNTIME_CLASS}, "handler": "runc",
        }));
        let _label = Labeled::new()?;
        let _install = Applied::new("the install", install)?;
        let daemon = a_running_daemon()?;
        let _pods = Applied::new("the pods", teams[0].objects(&images, |_| Ok(()))?)?;
        let tried = wait_for("both pods to share", || {
            require_held(&daemon, "tetris-e2e", 2)
        })
        .and_then(|()| {
            let mut pods = teams[0].pods.iter();
            pods.try_for_each(|pod| wait_for("the mirror", || require_mirror(pod)))
        });
        tried.map_err(|error| error.context(state(&teams)))
    });
}

/// The daemon's configuration with host memory for a device.
fn simulate_device(install: &mut Objects) -> Result<()> {
    let mut all = install.0.iter_mut();
    let map =
        all.find(|object| object["kind"] == "ConfigMap" && object["data"]["node.toml"].is_string());
    let file = &mut map.context("no node.toml")?["data"]["node.toml"];
    let table = "[gpu_mirror]\n";
    ensure!(text(file).contains(table), "no {table} in {file}");
    *file = text(file)
        .replace(table, &format!("{table}implementation = \"simulated\"\n"))
        .into();
    Ok(())
}

/// The label of nodes with a device, on all nodes until this value is dropped.
struct Labeled;

impl Labeled {
    fn new() -> Result<Self> {
        let label = format!("{LABEL}=true");
        Kubectl.run(&["label", "nodes", "--all", "--overwrite", &label])?;
        Ok(Self)
    }
}

impl Drop for Labeled {
    fn drop(&mut self) {
        let _stays = Kubectl.run(&["label", "nodes", "--all", &format!("{LABEL}-")]);
    }
}

/// As a pod without rights sees it, through its read-only volume.
fn require_mirror(pod: &str) -> Result<()> {
    let command = [
        "/usr/local/bin/tetris",
        "--format",
        "json",
        "--store",
        STORE,
    ];
    let exec = ["exec", "-n", "tetris-e2e", pod, "--"];
    let said = Kubectl.run(&[&exec[..], &command, &["gpu-status"]].concat())?;
    let status: Value = serde_json::from_str(&said)?;
    ensure!(list(&status["devices"]).len() == 1, "{status}");
    Ok(())
}

/// Names of the images, once nothing of the overlay is on the cluster.
fn images(node: &'static str, teams: &[Team]) -> Result<[(&'static str, String); 2]> {
    let namespaces: Vec<String> = teams
        .iter()
        .map(|team| format!("namespace/{}", team.namespace))
        .collect();
    let mut absent = vec!["csi.tetris.dev", "namespace/tetris-system"];
    absent.extend(namespaces.iter().map(String::as_str));
    require_absent(&absent)?;
    let (_, name) = image("TETRIS_IMAGE_NODE", "tetris-node");
    Ok([(node, name), image("TETRIS_IMAGE_AGENT", "tetris-agent")])
}

fn a_running_daemon() -> Result<String> {
    wait_for_daemons().map_err(|error| error.context(state(&[])))?;
    let (daemon, _) = wait_for("a ready daemon", || a_daemon(None))?;
    Ok(daemon)
}

/// Checks that a store has one copy of the model, which `pods` pods hold.
fn require_held(daemon: &str, store: &str, pods: u64) -> Result<()> {
    let objects = model::TENSORS as u64;
    let expected = StoreUse {
        held_objects: objects,
        objects,
        holders: objects * pods,
    };
    let status = get(Kubectl, SYSTEM, daemon, PORT, "/status")?;
    let used = StoreUse::of(&status, store)?;
    ensure!(used == expected, "expected {expected:?}, found {used:?}");
    Ok(())
}

fn state(teams: &[Team]) -> String {
    let log = [
        "logs",
        "-n",
        SYSTEM,
        "daemonset/tetris-node",
        "--all-containers",
        "--prefix",
        "--tail=40",
    ];
    let mut said = look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", SYSTEM],
        &log,
    ]);
    for team in teams {
        said += &look_at(&[&["get", "events", "-n", team.namespace]]);
    }
    said
}
