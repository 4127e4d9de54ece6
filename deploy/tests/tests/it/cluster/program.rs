//! A program of ours as a process of this machine, with the token of its account.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tetris_deploy_tests::cluster::Kubectl;
use tetris_deploy_tests::files;

use crate::cluster::install::SYSTEM;

/// A running program, which ends with this value.
pub struct Program {
    child: Child,
    log: PathBuf,
    _dir: TempDir,
}

impl Program {
    /// Builds and starts a program, as the account of its name.
    pub fn start(name: &str, arguments: &[&str]) -> Result<Self> {
        Self::start_as(name, name, arguments)
    }

    /// Builds and starts a program with the rights of an account.
    pub fn start_as(account: &str, name: &str, arguments: &[&str]) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Without a package, cargo resolves the features of the whole workspace.
        let shared = ["--quiet", "--offline", "--locked", "--bin", name];
        let cargo = |what: &str| {
            let mut command = Command::new(&cargo);
            command.arg(what).args(shared).current_dir(files::deploy());
            command
        };
        let built = cargo("build").status()?;
        anyhow::ensure!(built.success(), "cannot build {name}");
        let dir = TempDir::new()?;
        let (config, log) = (dir.path().join("config"), dir.path().join("log"));
        fs::write(&config, kubeconfig(account)?.to_string())?;
        // Cargo becomes the program.
        let child = cargo("run")
            .arg("--")
            .args(arguments)
            .env("KUBECONFIG", config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        Ok(Self {
            child,
            log,
            _dir: dir,
        })
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, name: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status()?;
        anyhow::ensure!(sent.success(), "cannot send SIG{name} to {pid}");
        Ok(())
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended_by_itself = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The way to the cluster with a token of the account, and without any other right.
fn kubeconfig(account: &str) -> Result<Value> {
    let token = Kubectl.run(&["create", "token", account, "-n", SYSTEM])?;
    let view = Kubectl.run(&[
        "config",
        "view",
        "--raw",
        "--minify",
        "--flatten",
        "-o",
        "json",
    ])?;
    let view: Value = serde_json::from_str(&view)?;
    let cluster = view["clusters"][0]["cluster"].as_object();
    let cluster = cluster.context("the kubeconfig names no cluster")?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token.trim()}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }))
}
