//! Killing a process at each step that it passes.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use tetris_store_layout::{Access, CRASH_AT, CRASH_COUNT_FILE, Published, Store};

use crate::model::{bytes, small_specs, write};
use crate::pool::{PINNED, pool_bytes};
use crate::process::{Finished, Worker, quiet};
use crate::scratch::Scratch;
use crate::task::{CrashTask, Job, RaceTask, Scenario, Task};

/// Every scenario in which processes work on one store.
pub const SCENARIOS: [Scenario; 8] = [
    Scenario::Publish,
    Scenario::Map,
    Scenario::Reclaim,
    Scenario::Records,
    Scenario::ColdLoad,
    Scenario::Reload,
    Scenario::Pull,
    Scenario::Collect,
];

/// Most steps that a scenario can have: as many models are written for it.
const STEPS_MAX: u64 = 150;

/// A store and models for processes that are killed.
#[derive(Debug)]
pub struct Crashes {
    /// The store.
    pub scratch: Scratch,
    exe: &'static str,
    uid: Option<u32>,
    pinned: Option<Published>,
}

/// A worker that was to be killed.
#[derive(Debug)]
pub struct Victim {
    /// Its exit status.
    pub finished: Finished,
    /// The steps that it passed.
    pub steps: Vec<String>,
}

impl Crashes {
    /// A new store, whose workers are of the user `uid`, or of the user who runs the test.
    pub fn new(exe: &'static str, uid: Option<u32>) -> anyhow::Result<Self> {
        let scratch = Scratch::new()?;
        write(&scratch.model("known"), &small_specs(1, &[0, 1, 4]))?;
        write(&scratch.model("variant"), &small_specs(2, &[1]))?;
        if let Some(uid) = uid {
            scratch.give_to(uid)?;
        }
        Ok(Self {
            scratch,
            exe,
            uid,
            pinned: None,
        })
    }

    fn store(&self) -> &Store {
        self.scratch.store()
    }

    fn job(&self, task: Task) -> Job {
        Job {
            task,
            uid: self.uid,
        }
    }

    /// References an object until [`Crashes::unpin`].
    pub fn pin(&mut self) -> anyhow::Result<()> {
        let pinned = self
            .store()
            .publish(&bytes(PINNED, 10_000), Access::ReadOnly)?;
        self.hand_over(&self.store().object_path(&pinned.object))?;
        self.pinned = Some(pinned);
        Ok(())
    }

    /// Drops what [`Crashes::pin`] references.
    pub fn unpin(&mut self) {
        self.pinned = None;
    }

    fn hand_over(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(uid) = self.uid {
            let owner = Some(nix::unistd::Uid::from_raw(uid));
            nix::unistd::chown(path, owner, None)?;
        }
        Ok(())
    }

    /// Writes the models that a scenario loads for the first time.
    pub fn write_models(&self, scenario: Scenario) -> anyhow::Result<()> {
        if matches!(
            scenario,
            Scenario::ColdLoad
                | Scenario::Reload
                | Scenario::Pull
                | Scenario::Collect
                | Scenario::Quarantine
        ) {
            for seed in 0..=STEPS_MAX {
                let path = self.scratch.model(&format!("cold-{seed}"));
                write(&path, &small_specs(100 + seed, &[0, 2, 3]))?;
            }
        }
        Ok(())
    }

    /// Puts into the store what a scenario with this seed expects there.
    pub fn prepare(&self, scenario: Scenario, seed: usize) -> anyhow::Result<()> {
        if !matches!(
            scenario,
            Scenario::Reload | Scenario::Collect | Scenario::Quarantine
        ) {
            return Ok(());
        }
        let _quiet = quiet();
        let path = self.scratch.model(&format!("cold-{seed}"));
        let model = self.scratch.agent()?.load(path)?;
        let objects: Vec<_> = model.objects().collect();
        drop(model);
        if scenario == Scenario::Reload {
            for object in objects.iter().skip(1) {
                self.store().reclaim(object)?;
            }
        } else {
            for index in 0..3 {
                self.store().publish(&pool_bytes(index), Access::ReadOnly)?;
            }
        }
        Ok(())
    }

    /// Runs a scenario and kills it at step `at`; the number of the step is also the seed.
    pub fn run(&self, scenario: Scenario, at: Option<usize>) -> anyhow::Result<Victim> {
        let steps = self.scratch.models().join("steps");
        let _ = std::fs::remove_file(&steps);
        std::fs::write(&steps, "")?;
        self.hand_over(&steps)?;
        let mut env = vec![(CRASH_COUNT_FILE, steps.clone().into_os_string())];
        if let Some(at) = at {
            env.push((CRASH_AT, at.to_string().into()));
        }
        let task = Task::Crash(CrashTask {
            store: self.scratch.root().to_owned(),
            models: self.scratch.models().to_owned(),
            scenario,
            seed: at.unwrap_or(0) as u64,
        });
        let finished = Worker::spawn(self.exe, &self.job(task), env).finish();
        let passed = std::fs::read_to_string(&steps).context("steps")?;
        Ok(Victim {
            finished,
            steps: passed.lines().map(str::to_owned).collect(),
        })
    }

    /// Starts a process that does everything at random.
    pub fn racer(&self, seed: u64) -> Worker {
        let task = Task::Race(RaceTask {
            store: self.scratch.root().to_owned(),
            models: self.scratch.models().to_owned(),
            seed,
        });
        Worker::start(self.exe, &self.job(task))
    }

    /// Runs a scenario alone, unharmed, and returns the steps that it passes.
    ///
    /// # Panics
    /// When it fails.
    pub fn count(&self, scenario: Scenario) -> anyhow::Result<Vec<String>> {
        self.prepare(scenario, 0)?;
        let victim = self.run(scenario, None)?;
        victim.finished.result::<()>();
        let passed = victim.steps.len() as u64;
        anyhow::ensure!((1..=STEPS_MAX).contains(&passed), "{passed} steps");
        Ok(victim.steps)
    }
}

/// The names of all steps of LAYOUT.md 5.1 to 5.4, and of 5.8.
pub fn step_names() -> BTreeSet<String> {
    let published = ["P1", "P2a", "P2b", "P3", "P4", "P5", "P6", "P7", "P8", "P9"];
    let numbered = ['M', 'R'].map(|letter| (1..=5).map(move |number| format!("{letter}{number}")));
    let records =
        ["P1", "P3", "P5", "P7", "unlinked", "quarantined"].map(|step| format!("record {step}"));
    let published = published.map(str::to_owned).into_iter();
    let names = published.chain(numbered.into_iter().flatten());
    names.chain(records).collect()
}
