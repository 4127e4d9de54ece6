//! A store for each run, and models for all.

use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::{Gid, Uid, chown};
use tempfile::TempDir;
use tetris_agent::{Agent, LoadOptions, sidecar};
use tetris_store_layout::{Access, CreateOptions, ManifestKind, Store};

use super::template::{ALSO_THERE, LEN, OWNER, THERE};
use super::{Injection, Job, Scenario, Stopped, Traced, strace};
use crate::model::{bytes, small_specs, write};

/// Folders in which a scenario is run repeatedly, each time from the same beginning.
#[derive(Debug)]
pub struct Places {
    exe: &'static str,
    scenario: Scenario,
    dir: TempDir,
    model: PathBuf,
}

/// A directory that one run must itself.
#[derive(Debug)]
pub struct Run {
    /// Instructions of its worker.
    pub job: Job,
    pub(super) dir: TempDir,
}

impl Places {
    /// Prepares what the scenario begins with.
    pub fn new(exe: &'static str, scenario: Scenario) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir_in("/dev/shm")?;
        let model = dir.path().join("model.safetensors");
        write(&model, &small_specs(1, &[0, 1]))?;
        let root = dir.path().join("store");
        if scenario == Scenario::Create {
            std::fs::create_dir(&root)?;
        } else {
            prepare(&root, &model, scenario)?;
        }
        Ok(Self {
            exe,
            scenario,
            dir,
            model,
        })
    }

    /// The loaded model, or could be.
    pub fn model(&self) -> &Path {
        &self.model
    }

    fn copy(&self) -> anyhow::Result<(Run, PathBuf)> {
        let dir = tempfile::tempdir_in("/dev/shm")?;
        let store = dir.path().join("store");
        copy(&self.dir.path().join("store"), &store)?;
        let mut model = self.model.clone();
        if self.scenario == Scenario::SidecarWrite {
            model = dir.path().join("model.safetensors");
            std::fs::copy(&self.model, &model)?;
        }
        if self.scenario == Scenario::OwnerReclaim {
            give(dir.path())?;
        }
        let job = Job {
            scenario: self.scenario,
            store,
            model,
        };
        let log = dir.path().join("log");
        Ok((Run { job, dir }, log))
    }

    /// Runs the scenario with `injection`, in its own copy.
    pub fn run(&self, injection: Option<&Injection>) -> anyhow::Result<(Run, Traced)> {
        let (run, log) = self.copy()?;
        let traced = strace::run(self.exe, &run.job, &log, injection)?;
        Ok((run, traced))
    }

    /// Starts the scenario in its own copy, and stops it when it has made its first call of this name.
    pub fn stop_behind(&self, call: &str) -> anyhow::Result<(Run, Stopped)> {
        let (run, log) = self.copy()?;
        let stopped = Stopped::start(self.exe, &run.job, log, call)?;
        Ok((run, stopped))
    }
}

fn prepare(root: &Path, model: &Path, scenario: Scenario) -> anyhow::Result<()> {
    let store = Store::create(root, &CreateOptions::default())?;
    for seed in [THERE, ALSO_THERE] {
        store.publish(&bytes(seed, LEN), Access::ReadOnly)?;
    }
    let agent = Agent::open_store(root)?;
    let known = [
        Scenario::KnownLoad,
        Scenario::Reload,
        Scenario::Scan,
        Scenario::Collect,
    ];
    if known.contains(&scenario) {
        let loaded = agent.load(model)?;
        let objects: Vec<_> = loaded.objects().collect();
        drop(loaded);
        if scenario == Scenario::Reload {
            for object in objects.iter().skip(1) {
                store.reclaim(object)?;
            }
        }
    }
    if scenario == Scenario::SidecarLoad {
        let options = LoadOptions::default();
        let manifests = agent.manifests(model, ManifestKind::Safetensors, &options)?;
        let (_, manifest) = manifests.first().context("a manifest")?;
        sidecar::write(model, manifest)?;
    }
    Ok(())
}

/// Makes a directory and what is in it the owner's.
fn give(path: &Path) -> anyhow::Result<()> {
    let (uid, gid) = (Uid::from_raw(OWNER), Gid::from_raw(OWNER));
    chown(path, Some(uid), Some(gid))?;
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path())?;
        }
    }
    Ok(())
}

/// Copies files and folders with their permissions, and links as links: those to last paths lead nowhere.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
