//! Pods that load a model and hold it, and what they report of the load.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::cluster::install::{APPLY, Applied, config_map_of};

/// Namespace of the pods, and so the name of their store.
pub const PODS: &str = "tetris-e2e";
/// Number of models that pods can hold.
pub const MODELS: u32 = 4;

/// The namespace, with pods that come one after the other.
pub struct Holders {
    template: Value,
    /// Pods and all goes at the end.
    pub applied: Applied,
}

/// The report of a load.
#[derive(Debug)]
pub struct Load {
    pub private_bytes: u64,
    pub shared_bytes: u64,
    /// The reason for private memory, by its name for programs.
    pub cause: Option<String>,
}

impl Holders {
    pub fn new(images: &[(&str, String)]) -> Result<Self> {
        let rendered = Objects::rendered("tests/cluster/pods", images)?;
        let template = rendered.one("Pod", "holder-a").clone();
        let mut objects = rendered;
        objects.0.retain(|object| object["kind"] != "Pod");
        for model in 0..MODELS {
            objects
                .0
                .push(config_map_of(PODS, &format!("model-{model}"), model)?);
        }
        let applied = Applied::new("the pods", objects)?;
        let account = ["get", "serviceaccount", "-n", PODS, "default"];
        wait_for("the namespace's account", || Kubectl.run(&account))?;
        Ok(Self { template, applied })
    }

    /// Starts a pod that loads a model and holds it. Returns the report of its load.
    pub fn hold(&self, name: &str, model: u32) -> Result<Load> {
        self.start(name, model)?;
        Self::wait_for_load(name)
    }

    /// Starts a pod that loads a model and holds it.
    pub fn start(&self, name: &str, model: u32) -> Result<()> {
        let mut pod = self.template.clone();
        pod["metadata"]["name"] = name.into();
        pod["spec"]["containers"][0]["args"] = json!([
            "load",
            "--hold",
            "--format",
            "json",
            "/model/model.safetensors"
        ]);
        let volumes = pod["spec"]["volumes"]
            .as_array_mut()
            .context("no volumes")?;
        for volume in volumes
            .iter_mut()
            .filter(|volume| volume["name"] == "model")
        {
            volume["configMap"]["name"] = format!("model-{model}").into();
        }
        Kubectl.with_objects(&APPLY, &Objects(vec![pod]))
    }

    /// Waits for the report of the load of a pod.
    pub fn wait_for_load(name: &str) -> Result<Load> {
        wait_for(&format!("the load of {name}"), || report(name))
    }

    /// Checks that no pod was restarted, and that each runs.
    pub fn require_undisturbed() -> Result<()> {
        let pods = Kubectl.json(&["get", "pods", "-n", PODS])?;
        ensure!(!list(&pods["items"]).is_empty(), "no pods");
        for pod in list(&pods["items"]) {
            let name = text(&pod["metadata"]["name"]);
            let status = &pod["status"]["containerStatuses"][0];
            ensure!(status["restartCount"] == 0, "{name} restarted: {status}");
            ensure!(status["state"]["running"].is_object(), "{name}: {status}");
        }
        Ok(())
    }
}

impl Load {
    /// Checks that all of it is the store's memory.
    pub fn require_shared(&self) -> Result<()> {
        ensure!(
            self.private_bytes == 0 && self.shared_bytes > 0 && self.cause.is_none(),
            "{self:?}"
        );
        Ok(())
    }

    /// Checks that none of it is, and that the report gives the reason.
    pub fn require_private(&self, causes: &[&str]) -> Result<()> {
        let cause = self.cause.as_deref().unwrap_or_default();
        ensure!(self.private_bytes > 0 && self.shared_bytes == 0, "{self:?}");
        ensure!(
            causes.contains(&cause),
            "expected one of {causes:?}, found {self:?}"
        );
        Ok(())
    }
}

/// Of the pod's log, which has warnings before it.
fn report(pod: &str) -> Result<Load> {
    let log = Kubectl.run(&["logs", "-n", PODS, pod])?;
    let mut documents = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let document = documents.find(|document| document["models"].is_array());
    let document = document.with_context(|| format!("{pod} has reported no load: {log}"))?;
    let model = &document["models"][0];
    let bytes = |field: &str| {
        model[field]
            .as_u64()
            .with_context(|| format!("no {field}: {model}"))
    };
    Ok(Load {
        private_bytes: bytes("bytes_private")?,
        shared_bytes: bytes("bytes_shared")?,
        cause: model["private_cause"].as_str().map(str::to_owned),
    })
}
