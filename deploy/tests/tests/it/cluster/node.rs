//! Commands on the node, as its root, and what they tell of the daemon's processes.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tetris_deploy_tests::cluster::Kubectl;
use tetris_deploy_tests::objects::{list, text};

/// Variable that names the program by which commands run on the node.
pub const NODE_EXEC: &str = "TETRIS_NODE_EXEC";

/// The one node of the cluster.
pub struct Node {
    program: String,
}

impl Node {
    /// None without the variable.
    pub fn of_environment() -> Option<Self> {
        let program = std::env::var(NODE_EXEC).ok()?;
        (!program.is_empty()).then_some(Self { program })
    }

    /// Output of a shell script on the node.
    pub fn run(&self, script: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        let output = command.args(["sh", "-c", script]).output();
        let output = output.with_context(|| format!("cannot run {}", self.program))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{script}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Id of the process that a container runs, among those of the node.
    pub fn process(&self, namespace: &str, pod: &str, container: &str) -> Result<u32> {
        let id = container_id(namespace, pod, container)?;
        let script = format!("grep -l {id} /proc/[0-9]*/cgroup 2>/dev/null; true");
        let processes = self.run(&script)?;
        let mut all = processes
            .lines()
            .filter_map(|line| line.split('/').nth(2)?.parse().ok());
        let first = all.next();
        ensure!(
            all.next().is_none(),
            "{container} has several processes: {processes}"
        );
        first.with_context(|| format!("no process of {container} ({id})"))
    }

    pub fn signal(&self, process: u32, signal: &str) -> Result<()> {
        self.run(&format!("kill -{signal} {process}")).map(drop)
    }

    /// Fields of a process's status, by their names.
    pub fn status(&self, process: u32) -> Result<BTreeMap<String, String>> {
        let text = self.run(&format!("cat /proc/{process}/status"))?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields
            .map(|(name, value)| (name.to_owned(), value.trim().replace('\t', " ")))
            .collect())
    }

    /// Memory of a process in bytes: its own, and its part of what it shares.
    pub fn proportional_bytes(&self, process: u32) -> Result<u64> {
        let rollup = self.run(&format!("cat /proc/{process}/smaps_rollup"))?;
        let row = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = row.and_then(|row| row.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        Ok(kib.with_context(|| format!("no `Pss` in {rollup}"))? << 10)
    }

    /// Returns true if a process sees a file of this path.
    pub fn sees(&self, process: u32, path: &str) -> Result<bool> {
        let script = format!(
            "test -d /proc/{process}/root && (test -e /proc/{process}/root{path} && echo yes || echo no)"
        );
        Ok(self.run(&script)?.trim() == "yes")
    }

    /// Options of the mount at a path, as a process sees it.
    pub fn mount_options(&self, process: u32, path: &str) -> Result<Vec<String>> {
        let table = self.run(&format!("cat /proc/{process}/mountinfo"))?;
        let mut rows = table
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let row = rows.find(|row| row.get(4) == Some(&path));
        let row =
            row.with_context(|| format!("nothing is mounted at {path} of process {process}"))?;
        let options = row.get(5).context("a row of mountinfo without options")?;
        Ok(options.split(',').map(str::to_owned).collect())
    }
}

fn container_id(namespace: &str, pod: &str, container: &str) -> Result<String> {
    let pod_object = Kubectl.json(&["get", "pod", "-n", namespace, pod])?;
    let mut all = list(&pod_object["status"]["containerStatuses"]).iter();
    let status = all.find(|status| status["name"] == container);
    let status = status.with_context(|| format!("{pod} has no container {container}"))?;
    ensure!(
        status["state"]["running"].is_object(),
        "{container}: {}",
        status["state"]
    );
    let (_, id) = text(&status["containerID"])
        .split_once("://")
        .with_context(|| format!("{container} has no id yet"))?;
    Ok(id.to_owned())
}
