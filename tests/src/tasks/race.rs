//! A process that does everything at random, until it is asked to stop, and checks what it sees.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::{Agent, LoadOptions, Model};
use tetris_store_layout::{Access, ObjectRef, Reclaimed, Store};

use super::{answer, crash::shared_records};
use crate::model::{fingerprint, fingerprint_of_file};
use crate::pool::{Held, POOL, pool_bytes, require_named};
use crate::process::{ready_and_wait, wait_for_parent};
use crate::task::{RaceReport, RaceTask};

struct Racer {
    agent: Agent,
    random: StdRng,
    pool: Vec<(ObjectRef, Vec<u8>)>,
    models: Vec<(PathBuf, String)>,
    held: HashMap<u64, Held>,
    model: Option<(Model, String)>,
    report: RaceReport,
}

pub(super) fn run(task: &RaceTask) -> anyhow::Result<()> {
    let mut racer = Racer::new(task)?;
    ready_and_wait()?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let waiter = std::thread::spawn(move || {
        let waited = wait_for_parent();
        stopped.store(true, Ordering::Relaxed);
        waited
    });
    while !stop.load(Ordering::Relaxed) {
        racer.round()?;
        racer.report.rounds += 1;
    }
    let _ = waiter.join();
    racer.check_all()?;
    answer(&racer.report)
}

impl Racer {
    fn new(task: &RaceTask) -> anyhow::Result<Self> {
        let pool = (0..POOL).map(|index| {
            let bytes = pool_bytes(index);
            (ObjectRef::of(&bytes), bytes)
        });
        Ok(Self {
            agent: Agent::open_store(&task.store)?,
            random: StdRng::seed_from_u64(task.seed),
            pool: pool.collect(),
            models: ["known", "variant"]
                .iter()
                .map(|name| known_model(&task.models, name))
                .collect::<anyhow::Result<_>>()?,
            held: HashMap::new(),
            model: None,
            report: RaceReport::default(),
        })
    }

    fn round(&mut self) -> anyhow::Result<()> {
        let index = self.random.random_range(0..POOL);
        let (object, bytes) = self.pool[index as usize].clone();
        let agent = self.agent.clone();
        let store = agent.store().context("no store")?;
        match self.random.random_range(0..20) {
            0..=4 => {
                let published = store.publish(&bytes, self.access()).context("publish")?;
                self.hold(store, index, published.into())?;
            }
            5..=8 => {
                if let Some(held) = Held::map(store, object, self.access()).context("map")? {
                    self.hold(store, index, held)?;
                }
            }
            9..=10 => {
                self.held.remove(&index);
            }
            11..=14 => self.reclaim(store, index)?,
            15 => self.load()?,
            16 => self.model = None,
            17 => shared_records(store, index).context("records")?,
            18 => self.check_all()?,
            _ => {
                let report = collect(store, &GcOptions::default()).context("collect")?;
                self.report.reclaimed += report.freed_objects;
                self.report.referenced += report.referenced_objects;
            }
        }
        Ok(())
    }

    fn access(&mut self) -> Access {
        if self.random.random() {
            Access::ReadOnly
        } else {
            Access::CopyOnWrite
        }
    }

    fn hold(&mut self, store: &Store, index: u64, held: Held) -> anyhow::Result<()> {
        held.check(store)?;
        self.held.insert(index, held);
        Ok(())
    }

    fn reclaim(&mut self, store: &Store, index: u64) -> anyhow::Result<()> {
        let object = self.pool[index as usize].0;
        let reference = self.held.get(&index);
        match store.reclaim(&object).context("reclaim")? {
            Reclaimed::Freed { .. } => {
                ensure!(reference.is_none(), "INV-3: reclaimed while mapped");
                self.report.reclaimed += 1;
            }
            Reclaimed::Referenced => self.report.referenced += 1,
            Reclaimed::Absent => ensure!(reference.is_none(), "INV-3: absent while mapped"),
        }
        Ok(())
    }

    fn load(&mut self) -> anyhow::Result<()> {
        let index = self.random.random_range(0..self.models.len());
        let (path, expected) = self.models[index].clone();
        let options = LoadOptions::default()
            .with_access(self.access())
            .with_ignore_identity(self.random.random_ratio(1, 3));
        let model = self.agent.load_with(&path, &options).context("load")?;
        self.report.loads += 1;
        if model.report().bytes_private > 0 {
            self.report.private_loads += 1;
            self.report
                .private_reason
                .clone_from(&model.report().private_reason);
        }
        self.model = Some((model, expected));
        self.check_model()
    }

    fn check_model(&self) -> anyhow::Result<()> {
        let Some((model, expected)) = &self.model else {
            return Ok(());
        };
        let store = self.agent.store().context("no store")?;
        ensure!(fingerprint(model)? == *expected, "wrong bytes in a model");
        for tensor in model.tensors() {
            // A tensor that is its own object; those in packs come with another tensor's name.
            let Some(id) = tensor.id() else { continue };
            let object = model.objects().find(|object| object.id == id.into());
            if let Some(object) = object {
                require_named(store, &object, tensor.bytes())?;
            }
        }
        Ok(())
    }

    fn check_all(&self) -> anyhow::Result<()> {
        let store = self.agent.store().context("no store")?;
        self.held.values().try_for_each(|held| held.check(store))?;
        self.check_model()
    }
}

fn known_model(models: &Path, name: &str) -> anyhow::Result<(PathBuf, String)> {
    let path = models.join(format!("{name}.safetensors"));
    let expected = fingerprint_of_file(&path)?;
    Ok((path, expected))
}
