//! Functions with loads that grow at random, and the operator that scales them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};

use super::figures::Spots;
use super::nodes::Nodes;
use super::pods::{all, pods};
use super::resources::{NAMESPACE, cpus, function, profile};
use crate::cluster::install::{APPLY, SYSTEM};
use crate::cluster::program::Program;

/// Number of changes of the loads, after which half of the CPUs are in use; of many nodes, a tenth: one machine serves
/// the requests of all.
const CHANGES: u64 = 7;
/// Requests per second and CPU of the configurations.
const RPS_OF_CPU: u64 = 20;

/// Functions, programs and simulated nodes.
pub struct Scene<'a> {
    nodes: &'a Nodes,
    count: usize,
    /// Loads by function.
    loads: BTreeMap<String, u64>,
    changes: u64,
    seed: u64,
    operator: Option<Program>,
    _gates: Program,
}

impl<'a> Scene<'a> {
    /// Creates the functions, without load, and starts the opener of gates.
    pub fn new(nodes: &'a Nodes, count: usize) -> Result<Self> {
        let functions: usize = match count {
            0..10 => 2,
            10..100 => 4,
            _ => 8,
        };
        let names: Vec<String> = (0..functions).map(|number| format!("f{number}")).collect();
        let mut objects: Vec<Value> = (0..functions.div_ceil(2)).map(profile).collect();
        objects.extend(
            names
                .iter()
                .enumerate()
                .map(|(number, name)| function(name, number / 2)),
        );
        Kubectl.with_objects(&APPLY, &Objects(objects))?;
        let listen = ["open-gates", "--listen", "127.0.0.1:0"];
        Ok(Self {
            nodes,
            count,
            loads: names.into_iter().map(|name| (name, 0)).collect(),
            changes: 0,
            seed: 0x9E37_79B9_7F4A_7C15 ^ count as u64,
            operator: None,
            _gates: Program::start_as("tetris-gates", "tetris-scaler", &listen)?,
        })
    }

    pub fn start_operator(&mut self) -> Result<()> {
        self.start_operator_by("gates")
    }

    /// Starts the operator with a way of placing pods.
    pub fn start_operator_by(&mut self, placement: &str) -> Result<()> {
        let arguments = [
            "run",
            "--placement",
            placement,
            "--namespace",
            SYSTEM,
            "--interval-seconds",
            "1",
            "--lease-seconds",
            "15",
            "--consolidate-after-seconds",
            "0",
            "--listen",
            "127.0.0.1:0",
            "--keda-listen",
            "127.0.0.1:0",
        ];
        self.operator = Some(Program::start("tetris-scaler", &arguments)?);
        Ok(())
    }

    pub fn kill_operator(&mut self) {
        self.operator = None;
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below.max(1)
    }

    /// Raises all loads at once, for the operator. Returns the instances that the command `plan` has for them.
    pub fn change_loads(&mut self) -> Result<Spots> {
        self.changes += 1;
        let cpus: u64 = (0..self.count).map(cpus).sum();
        let part = if self.count < 100 { 2 } else { 10 };
        let share = cpus * RPS_OF_CPU / part / self.loads.len() as u64;
        for name in self.loads.keys().cloned().collect::<Vec<_>>() {
            let most = share * self.changes.min(CHANGES) / CHANGES;
            let before = self.loads.get(&name).copied().unwrap_or(0);
            let more = self.random(most.saturating_sub(before));
            self.loads.insert(name, before + more.max(RPS_OF_CPU / 2));
        }
        // It sees none without the others.
        if let Some(operator) = &self.operator {
            operator.signal("STOP")?;
        }
        let planned = self.patch_and_plan();
        if let Some(operator) = &self.operator {
            operator.signal("CONT")?;
        }
        planned
    }

    fn patch_and_plan(&self) -> Result<Spots> {
        for (name, load) in &self.loads {
            let patch =
                json!({"spec": {"load": {"static": {"requestsPerSecond": load}}}}).to_string();
            let name = format!("inferencefunction/{name}");
            Kubectl.run(&[
                "patch",
                &name,
                "-n",
                NAMESPACE,
                "--type=merge",
                "-p",
                &patch,
            ])?;
        }
        let kinds = "modelprofiles.tetris.dev,inferencefunctions.tetris.dev,nodes,pods";
        let objects = Kubectl.run(&["get", kinds, "-A", "-o", "json"])?;
        // Built by the start of the operator, beside the tests.
        let tests = std::env::current_exe()?;
        let folder = tests.parent().and_then(|deps| deps.parent());
        let program = folder
            .context("no folder of programs")?
            .join("tetris-scaler");
        let mut command = Command::new(program);
        let loads = self
            .loads
            .iter()
            .map(|(name, load)| format!("--load={NAMESPACE}/{name}={load}"));
        command
            .args(["plan", "-f", "-", "--format", "json"])
            .args(loads);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        child
            .stdin
            .take()
            .context("no stdin")?
            .write_all(objects.as_bytes())?;
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "plan: {errors}");
        let plan: Value = serde_json::from_slice(&output.stdout)?;
        let mut spots = Spots::new();
        for node in list(&plan["nodes"]) {
            for item in list(&node["instances"]) {
                let deployment = format!(
                    "{}-{}",
                    text(&item["function"]),
                    text(&item["configuration"])
                );
                let spot = (deployment, text(&node["name"]).to_owned());
                *spots.entry(spot).or_default() +=
                    u32::try_from(item["replicas"].as_u64().unwrap_or(0))?;
            }
        }
        Ok(spots)
    }

    /// Waits until the operator has seen the loads, and all pods that it wants are ready.
    pub fn wait_until_ready(&self) -> Result<()> {
        wait_for("all functions to be ready", || self.require_ready())
    }

    fn require_ready(&self) -> Result<()> {
        for function in all("inferencefunctions.tetris.dev")? {
            let name = text(&function["metadata"]["name"]);
            let status = &function["status"];
            let load = self.loads.get(name).map(u64::to_string);
            ensure!(
                status["load"].as_str() == load.as_deref(),
                "{name}: {status}"
            );
            ensure!(
                status["observedGeneration"] == function["metadata"]["generation"],
                "{name}: {status}"
            );
            let mut conditions = list(&status["conditions"]).iter();
            let serves = conditions
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            ensure!(
                serves && status["instances"] == status["ready"],
                "{name}: {status}"
            );
        }
        let mut replicas = 0;
        for deployment in all("deployments")? {
            let (spec, status) = (&deployment["spec"], &deployment["status"]);
            let wanted = spec["replicas"].as_u64().unwrap_or(0);
            let is = |field: &str| status[field].as_u64().unwrap_or(0) == wanted;
            let seen = status["observedGeneration"] == deployment["metadata"]["generation"];
            ensure!(
                seen && ["replicas", "updatedReplicas", "readyReplicas"]
                    .iter()
                    .all(|entry| is(entry)),
                "{status}"
            );
            replicas += wanted;
        }
        let pods = all("pods")?;
        ensure!(
            pods.len() as u64 == replicas,
            "{} pods for {replicas} replicas",
            pods.len()
        );
        Ok(())
    }

    /// Replaces all pods, for the time with this number.
    pub fn roll(&self, number: &str, rollout: &Value) -> Result<()> {
        let annotations = json!({"example.com/roll": number});
        let patch = json!({"spec": {
            "template": {"metadata": {"annotations": annotations}}, "rollout": rollout,
        }});
        for name in self.loads.keys() {
            let name = format!("inferencefunction/{name}");
            Kubectl.run(&[
                "patch",
                &name,
                "-n",
                NAMESPACE,
                "--type=merge",
                "-p",
                &patch.to_string(),
            ])?;
        }
        wait_for("all Deployments to have the new template", || {
            for deployment in all("deployments")? {
                let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
                ensure!(annotations["example.com/roll"] == number, "{annotations}");
            }
            Ok(())
        })?;
        self.wait_until_ready()
    }

    /// Raises the loads, and lets nodes that the plan has for more instances take no more pods than they have.
    pub fn fill_the_next_node(&mut self) -> Result<String> {
        let before = pods()?;
        if let Some(operator) = &self.operator {
            operator.signal("STOP")?;
        }
        let operator = self.operator.take();
        let planned = self.change_loads();
        self.operator = operator;
        let grows = |spot: &&(String, String)| {
            planned
                .as_ref()
                .is_ok_and(|planned| planned.get(*spot) > before.get(*spot))
        };
        let keys = planned
            .as_ref()
            .map(|planned| planned.keys().find(grows).cloned());
        let full = keys.ok().flatten();
        if let Some((_, node)) = &full {
            let there: u32 = before
                .iter()
                .filter(|((_, found), _)| found == node)
                .map(|(_, count)| count)
                .sum();
            let number = node.trim_start_matches("placement-").parse()?;
            self.nodes.offer(node, cpus(number), there.into())?;
        }
        if let Some(operator) = &self.operator {
            operator.signal("CONT")?;
        }
        planned?;
        Ok(full.context("the plan grows nowhere")?.1)
    }
}
