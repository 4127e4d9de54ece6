//! A process that loads, checks, derives and drops at random, until it is asked to stop or killed.
//!
//! Each time the parent writes something it stands still, or goes on. Standing still, it reports what it holds.

mod held;

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::{Agent, LoadOptions, LoadReport, Origin};
use tetris_store_layout::{Access, Store};

use self::held::{Held, require_named, transformed};
use super::{answer, listen};
use crate::model::fingerprint;
use crate::process::lines_of_parent;
use crate::task::TortureTask;
use crate::torture::{EventLog, KnownModel, What};

/// Most models that a process holds at once. All of them together hold about as much as the store can.
const MAX_HELD: usize = 2;
/// A load finds the store full of bytes when fewer are free.
const FEW_BYTES: u64 = 64 << 10;

pub(super) fn run(task: &TortureTask) -> anyhow::Result<()> {
    let log = EventLog::open(&task.events)?;
    listen::start(EventLog::open(&task.events)?)?;
    let done = Worker::new(task, log).and_then(|worker| worker.run(&lines_of_parent()));
    if let Err(error) = &done {
        let what = What::Failed(format!("a worker of seed {}: {error:#}", task.seed));
        EventLog::open(&task.events)?.append(what, 0)?;
    }
    done
}

struct Worker {
    agent: Agent,
    store: Store,
    random: StdRng,
    models: Vec<KnownModel>,
    held: Vec<Held>,
    log: EventLog,
}

impl Worker {
    fn new(task: &TortureTask, log: EventLog) -> anyhow::Result<Self> {
        let models = std::fs::read(&task.models)?;
        Ok(Self {
            agent: Agent::open_store(&task.store)?,
            store: Store::open(&task.store)?,
            random: StdRng::seed_from_u64(task.seed),
            models: serde_json::from_slice(&models)?,
            held: Vec::new(),
            log,
        })
    }

    fn run(mut self, lines: &Receiver<()>) -> anyhow::Result<()> {
        loop {
            match lines.try_recv() {
                Ok(()) => {
                    self.check()?;
                    answer(&held::count(&self.held))?;
                    if lines.recv().is_err() {
                        break;
                    }
                }
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => self.round()?,
            }
        }
        self.check()?;
        self.held.clear();
        self.check()?;
        answer(&())
    }

    fn round(&mut self) -> anyhow::Result<()> {
        match self.random.random_range(0..24) {
            0..=9 => self.load().context("load")?,
            10..=11 => self.scribble().context("scribble")?,
            12..=14 => self.derive().context("derive")?,
            15..=19 => self.check()?,
            20..=21 => self.drop_one()?,
            22 => {
                let report = collect(&self.store, &GcOptions::default()).context("collect")?;
                self.log.append(What::Collected, report.freed_bytes)?;
            }
            // One that had no answer from the daemon leaves it alone for a minute.
            _ => self.agent = Agent::open_store(self.store.root())?,
        }
        let pause = self.random.random_range(0..4);
        std::thread::sleep(Duration::from_millis(pause));
        Ok(())
    }

    fn options(&mut self) -> LoadOptions {
        LoadOptions::default()
            .with_access(if self.random.random() {
                Access::ReadOnly
            } else {
                Access::CopyOnWrite
            })
            .with_ignore_identity(self.random.random_ratio(1, 4))
            .with_threads(std::num::NonZeroUsize::new(self.random.random_range(1..3)))
            .with_wait(Duration::from_secs(5))
    }

    fn load(&mut self) -> anyhow::Result<()> {
        let options = self.options();
        while self.held.len() >= MAX_HELD {
            self.drop_one()?;
        }
        // Some are more popular than others.
        let count = self.models.len();
        let (one, other) = (
            self.random.random_range(0..count),
            self.random.random_range(0..count),
        );
        let known = &self.models[one.min(other)];
        let model = if known.whole {
            let file = self.agent.share_file(&known.path, &options)?;
            Held::file(file, known)
        } else {
            let model = self.agent.load_with(&known.path, &options)?;
            Held::model(model, known)
        };
        self.report(model.report())?;
        self.held.push(model);
        self.check()?;
        // What everybody holds must not fill the store for good.
        if self.random.random() {
            self.drop_one()?;
        }
        Ok(())
    }

    fn report(&self, report: Option<&LoadReport>) -> anyhow::Result<()> {
        let Some(report) = report else { return Ok(()) };
        let reason = report.private_reason.as_deref();
        let (what, bytes) = if report.bytes_private > 0 {
            let reason = reason.context("private without a reason")?;
            let refused = reason.contains("the node's daemon made no room");
            (
                [What::LoadPrivate, What::LoadRefused][usize::from(refused)].clone(),
                report.bytes_private,
            )
        } else if report.bytes_new > 0 {
            (What::LoadPublished, report.bytes_new)
        } else {
            (What::LoadAttached, report.bytes_shared)
        };
        self.log.append(what, bytes)?;
        let usage = self.store.usage()?;
        if usage.free < FEW_BYTES {
            self.log.append(What::FullOfBytes, usage.free)?;
        }
        if usage.inodes_free == 0 {
            self.log.append(What::FullOfFiles, usage.free)?;
        }
        Ok(())
    }

    /// Writes over every tensor of a model: no one else may ever see it (INV-2).
    fn scribble(&mut self) -> anyhow::Result<()> {
        let options = self.options().with_access(Access::CopyOnWrite);
        let known = &self.models[self.random.random_range(0..self.models.len())];
        if known.whole {
            return Ok(());
        }
        let mut model = self.agent.load_with(&known.path, &options)?;
        self.report(Some(model.report()))?;
        ensure!(fingerprint(&model)? == known.expected, "wrong bytes");
        let names: Vec<_> = model.tensors().map(|t| t.name().to_owned()).collect();
        let mut written = 0;
        for name in names {
            let bytes = model.tensor_mut(&name).context("a tensor is read-only")?;
            bytes.fill(0xee);
            written += bytes.len() as u64;
        }
        self.log.append(What::Scribbled, written)
    }

    fn derive(&mut self) -> anyhow::Result<()> {
        let options = self.options();
        let slow = Duration::from_millis(self.random.random_range(0..3));
        let mut models = self.held.iter().filter_map(Held::as_model);
        let Some(source) = models.find_map(|model| model.tensors().next()) else {
            return Ok(());
        };
        let Some(id) = source.id() else { return Ok(()) };
        let expected = transformed(source.bytes());
        let derived = self
            .agent
            .derive(id, "torture", 1, &options, || {
                std::thread::sleep(slow);
                anyhow::Ok(expected.clone())
            })
            .context("transform")??;
        let origin = derived.origin();
        ensure!(
            origin != Origin::Private || derived.private_reason().is_some(),
            "private without a reason"
        );
        let what = What::Derived(origin.name().to_owned());
        self.log.append(what, derived.len() as u64)?;
        self.held.push(Held::derived(derived, &expected));
        self.check()?;
        while self.held.len() > MAX_HELD {
            self.drop_one()?;
        }
        Ok(())
    }

    fn drop_one(&mut self) -> anyhow::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let index = self.random.random_range(0..self.held.len());
        drop(self.held.swap_remove(index));
        self.log.append(What::Dropped, 0)
    }

    /// Every byte (INV-1, INV-2), and every name (INV-3).
    fn check(&self) -> anyhow::Result<()> {
        let mut read = 0;
        for held in &self.held {
            read += held.check()?;
        }
        require_named(&self.store, &self.held)?;
        self.log.append(What::Checked, read)
    }
}
