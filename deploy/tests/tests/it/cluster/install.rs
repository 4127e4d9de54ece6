//! Common parts of the tests on a cluster.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use serde_json::Value;
use tetris_deploy_tests::cluster::Kubectl;
use tetris_deploy_tests::model;
use tetris_deploy_tests::objects::Objects;
use tetris_deploy_tests::skipped::skipped;

pub const SYSTEM: &str = "tetris-system";

/// Server-side: the annotation of a plain `apply` would be as large as the model.
pub const APPLY: [&str; 2] = ["apply", "--server-side"];

/// Each test installs for itself.
static CLUSTER: Mutex<()> = Mutex::new(());

/// Runs a test when there is a cluster, and one at a time.
pub fn on_the_cluster(test: impl FnOnce() -> Result<()>) {
    if std::env::var_os("KUBECONFIG").is_none_or(|value| value.is_empty()) {
        return skipped("KUBECONFIG names no cluster");
    }
    let _alone = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    test().unwrap_or_else(|error| panic!("{error:#}"));
}

/// That nothing of this is on the cluster.
pub fn require_absent(names: &[&str]) -> Result<()> {
    Kubectl.run(&["version"])?;
    let kinds = "csidriver,namespace,customresourcedefinition";
    let there = Kubectl.run(&["get", kinds, "-o", "name"])?;
    for name in names {
        ensure!(
            !there.lines().any(|line| line.ends_with(name)),
            "`{name}` is on this cluster already"
        );
    }
    Ok(())
}

/// Objects that a test applied. They are removed at its end, even if it fails.
pub struct Applied {
    pub what: &'static str,
    pub objects: Objects,
}

impl Applied {
    pub fn new(what: &'static str, objects: Objects) -> Result<Self> {
        // First, so that what was applied before an error is removed as well.
        let applied = Self { what, objects };
        Kubectl.with_objects(&APPLY, &applied.objects)?;
        Ok(applied)
    }

    pub fn remove(&self) -> Result<()> {
        let args = ["delete", "--ignore-not-found", "--timeout=240s"];
        Kubectl.with_objects(&args, &self.objects)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            skipped(&format!("removing {}: {error:#}", self.what));
        }
    }
}

pub fn image(variable: &str, name: &'static str) -> (&'static str, String) {
    (
        name,
        std::env::var(variable).unwrap_or_else(|_| name.to_owned()),
    )
}

pub fn wait_for_daemons() -> Result<()> {
    wait_for_rollout("daemonset/tetris-node")
}

/// Waits until the API server takes functions, profiles and models.
pub fn wait_for_definitions() -> Result<()> {
    for resource in ["inferencefunctions", "modelprofiles", "models"] {
        let definition = format!("crd/{resource}.tetris.dev");
        let established = ["--for=condition=Established", "--timeout=60s"];
        Kubectl.run(&[&["wait", &definition][..], &established].concat())?;
    }
    Ok(())
}

pub fn wait_for_rollout(what: &str) -> Result<()> {
    let args = ["rollout", "status", "-n", SYSTEM, what, "--timeout=240s"];
    Kubectl.run(&args).map(drop)
}

/// The model, as pods get it.
pub fn config_map(namespace: &str) -> Result<Value> {
    config_map_of(namespace, "model", 0)
}

/// One of several models, as pods get it.
pub fn config_map_of(namespace: &str, name: &str, model: u32) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("model.safetensors");
    std::fs::write(&path, model::bytes_of(model)?)?;
    let from = format!("--from-file={}", path.display());
    let args = ["create", "configmap", name, "-n", namespace, &from];
    Kubectl.json(&[&args[..], &["--dry-run=client"]].concat())
}

/// Output of the commands that an engineer would look at first.
pub fn look_at(commands: &[&[&str]]) -> String {
    let looked = commands.iter().map(|args| {
        Kubectl
            .run(args)
            .unwrap_or_else(|error| format!("{error:#}\n"))
    });
    looked.collect::<Vec<_>>().join("\n")
}
