//! The parent's side: starts everything, kills it, and checks what is left.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::account::{References, require_true};
use super::daemon::Daemon;
use super::events::{EventLog, Tally, What};
use super::models::{unique_bytes, write_models};
use crate::check::{files_of_daemon, require_reclaimable, require_sound, require_tidy};
use crate::process::{RESULT, Worker, require_killed};
use crate::scratch::Scratch;
use crate::task::{Job, Task, TortureTask};

/// Processes that load.
const WORKERS: usize = 16;
/// Files that the store's file system can hold: fewer than the objects that it has room for.
const INODES: u64 = 120;

/// A store, and all that goes on in it.
#[derive(Debug)]
pub struct Arena {
    /// Declared before the store, so that they end first.
    workers: Vec<Worker>,
    collectors: Vec<Worker>,
    daemon: Daemon,
    exe: &'static str,
    random: StdRng,
    events: PathBuf,
    models: PathBuf,
    /// Recorded events.
    pub tally: Tally,
    due: Due,
    scratch: Scratch,
}

/// Schedule of the operations.
#[derive(Debug)]
struct Due {
    worker: Instant,
    daemon: Instant,
}

impl Arena {
    /// A store of a third of what the models need, and processes that use it. Needs root.
    pub fn new(exe: &'static str, seed: u64) -> anyhow::Result<Self> {
        let size = (unique_bytes() / 3).next_multiple_of(4096);
        let scratch = Scratch::mounted(&format!("size={size},nr_inodes={INODES}"))?;
        let at = |name: &str| scratch.models().join(name);
        let (events, models) = (at("events"), at("models.json"));
        let known = write_models(scratch.models())?;
        std::fs::write(&models, serde_json::to_vec(&known)?)?;
        EventLog::open(&events)?;
        let now = Instant::now();
        let mut arena = Self {
            workers: Vec::new(),
            collectors: Vec::new(),
            daemon: Daemon::new(exe, scratch.root(), at("daemon.toml"), events.clone()),
            exe,
            random: StdRng::seed_from_u64(seed),
            tally: Tally::of(&events)?,
            events,
            models,
            due: Due {
                worker: now,
                daemon: now,
            },
            scratch,
        };
        for _ in 0..WORKERS {
            let worker = arena.new_worker();
            arena.workers.push(worker);
        }
        Ok(arena)
    }

    fn new_worker(&mut self) -> Worker {
        let task = Task::Torture(TortureTask {
            store: self.scratch.root().to_owned(),
            models: self.models.clone(),
            events: self.events.clone(),
            seed: self.random.random(),
        });
        Worker::start(self.exe, &Job::new(task))
    }

    /// Waits a moment, kills what is due, and counts what happened.
    pub fn step(&mut self) -> anyhow::Result<()> {
        std::thread::sleep(Duration::from_millis(5));
        let now = Instant::now();
        if now >= self.due.worker {
            self.replace_worker()?;
            self.due.worker = now + self.moment(10, 90);
        }
        if now >= self.due.daemon {
            self.replace_daemon()?;
        }
        self.tally.read()
    }

    fn moment(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(self.random.random_range(least_ms..=most_ms))
    }

    fn replace_worker(&mut self) -> anyhow::Result<()> {
        let index = self.random.random_range(0..self.workers.len());
        let new = self.new_worker();
        let old = std::mem::replace(&mut self.workers[index], new);
        old.signal(Signal::SIGKILL)?;
        require_killed(old);
        self.tally.add(What::WorkerKilled, 0);
        Ok(())
    }

    /// Kills the daemon, or starts one. While there is none, agents reclaim by themselves, and half of the time two
    /// processes collect besides; some of these overlap with the next daemon.
    fn replace_daemon(&mut self) -> anyhow::Result<()> {
        let after = if self.daemon.is_running() {
            self.daemon.kill()?;
            self.tally.add(What::DaemonKilled, 0);
            if self.random.random() {
                self.start_collectors();
            }
            self.moment(0, 700)
        } else {
            self.daemon.start(&mut self.random)?;
            if self.random.random() {
                self.end_collectors()?;
            }
            self.moment(200, 2_000)
        };
        self.due.daemon = Instant::now() + after;
        Ok(())
    }

    fn start_collectors(&mut self) {
        while self.collectors.len() < 2 {
            let task = Task::Collect {
                store: self.scratch.root().to_owned(),
                events: self.events.clone(),
            };
            self.collectors
                .push(Worker::start(self.exe, &Job::new(task)));
        }
    }

    fn end_collectors(&mut self) -> anyhow::Result<()> {
        for collector in self.collectors.drain(..) {
            if self.random.random() {
                collector.signal(Signal::SIGKILL)?;
                require_killed(collector);
                self.tally.add(What::CollectorKilled, 0);
            } else {
                collector.finish().result::<()>();
            }
        }
        Ok(())
    }

    /// Lets everything stand still and checks that nothing is wrong, lost or left over, and that the daemon counts what
    /// is there.
    pub fn audit(&mut self) -> anyhow::Result<()> {
        let references = self.pause()?;
        self.end_collectors()?;
        // Either way: what it has done must be true.
        if self.daemon.is_running() {
            if self.random.random() {
                self.daemon.stop()?;
                self.tally.add(What::DaemonStopped, 0);
            } else {
                self.daemon.kill()?;
                self.tally.add(What::DaemonKilled, 0);
            }
        } else {
            self.daemon.start(&mut self.random)?;
            self.daemon.stop()?;
            self.tally.add(What::DaemonStopped, 0);
        }
        let store = self.scratch.store();
        require_tidy(store, self.scratch.empty_usage()).context("everything stands still")?;
        require_true(store, &self.daemon.config, &references)?;
        self.tally.read()?;
        self.tally.add(What::Audited, 0);
        self.workers.iter_mut().for_each(Worker::go);
        Ok(())
    }

    /// Lets all workers stand still, and returns what they hold together.
    fn pause(&mut self) -> anyhow::Result<References> {
        self.workers.iter_mut().for_each(Worker::go);
        let mut all = References::new();
        for worker in &mut self.workers {
            let line = worker.read_line();
            let Some(held) = line.strip_prefix(RESULT) else {
                self.tally.read()?;
                anyhow::bail!("a worker says {line:?} and not what it holds");
            };
            for (name, count) in serde_json::from_str::<References>(held)? {
                *all.entry(name).or_default() += count;
            }
        }
        Ok(all)
    }

    /// Stops everything, checks that nothing is left that cannot be freed, and frees it.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.end_collectors()?;
        for worker in self.workers.drain(..) {
            worker.finish().result::<()>();
        }
        if !self.daemon.is_running() {
            self.daemon.start(&mut self.random)?;
        }
        self.daemon.stop()?;
        self.tally.add(What::DaemonStopped, 0);
        self.tally.read()?;
        let (store, empty) = (self.scratch.store(), self.scratch.empty_usage());
        require_sound(store)?;
        require_tidy(store, empty)?;
        require_true(store, &self.daemon.config, &References::new())?;
        for file in files_of_daemon(store) {
            std::fs::remove_file(file)?;
        }
        require_reclaimable(store, empty)?;
        require_true(store, &self.daemon.config, &References::new())?;
        let used = store.objects()?.objects.len();
        ensure!(used == 0, "{used} objects are left");
        Ok(())
    }
}
