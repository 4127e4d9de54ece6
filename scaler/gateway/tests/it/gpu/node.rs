//! A simulated node: GPUs whose loads share the switches to the host, and links between GPUs.
//!
//! Bytes are numbers. They move in steps of a millisecond, by the time that has really passed, so
//! that a machine under load makes loads no shorter than they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A model as the executors of a node serve it.
#[derive(Clone, Debug)]
pub struct Model {
    pub name: String,
    pub parts: Vec<(String, u64)>,
    /// Time of an inference.
    pub infer: Duration,
    /// Part of it that follows the last byte of a load.
    pub after_load: Duration,
}

impl Model {
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Properties of a node.
#[derive(Clone, Debug)]
pub struct Rules {
    pub gpus: usize,
    pub capacity_bytes: u64,
    /// Bandwidth of each switch, which two GPUs share.
    pub bytes_per_s: u64,
    /// Bandwidth of links within a pair and across, if there are links.
    pub peers: Option<[u64; 2]>,
    pub models: Vec<Model>,
}

/// Origin of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    Switch(usize),
    Peer(usize, usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Loading { link_bytes: u64 },
    Resident,
}

#[derive(Debug, Default)]
struct Memory {
    /// Bytes of each part, and the number of models that have it.
    parts: HashMap<String, (u64, u32)>,
    models: BTreeMap<String, (State, Option<Link>)>,
}

impl Memory {
    fn used(&self) -> u64 {
        self.parts.values().map(|(bytes, _)| bytes).sum()
    }

    fn missing<'a>(&self, model: &'a Model) -> Vec<&'a (String, u64)> {
        let parts = model.parts.iter();
        parts
            .filter(|(id, _)| !self.parts.contains_key(id))
            .collect()
    }
}

#[derive(Debug, Default)]
struct Inner {
    memories: Vec<Memory>,
    host_bytes: u64,
    peer_bytes: u64,
    loads: u64,
}

#[derive(Debug)]
pub struct Node {
    pub rules: Rules,
    inner: Mutex<Inner>,
    /// A load has ended, or a model is gone.
    pub changed: Notify,
}

/// A model did not fit.
#[derive(Debug)]
pub struct Full;

impl Node {
    pub fn start(rules: Rules) -> Arc<Self> {
        let memories = (0..rules.gpus).map(|_| Memory::default()).collect();
        let node = Arc::new(Self {
            rules,
            inner: Mutex::new(Inner {
                memories,
                ..Inner::default()
            }),
            changed: Notify::new(),
        });
        let moved = Arc::downgrade(&node);
        tokio::spawn(async move {
            let mut at = Instant::now();
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let Some(node) = moved.upgrade() else { return };
                let passed = at.elapsed();
                at += passed;
                node.advance(passed);
            }
        });
        node
    }

    pub fn model(&self, name: &str) -> Option<&Model> {
        self.rules.models.iter().find(|model| model.name == name)
    }

    fn advance(&self, passed: Duration) {
        let mut inner = self.inner.lock().unwrap();
        let mut users: HashMap<Link, u64> = HashMap::new();
        let memories = inner.memories.iter();
        for (_, link) in memories.flat_map(|memory| memory.models.values()) {
            if let Some(link) = link {
                *users.entry(*link).or_default() += 1;
            }
        }
        let mut ended = false;
        for (state, link) in inner
            .memories
            .iter_mut()
            .flat_map(|memory| memory.models.values_mut())
        {
            let (State::Loading { link_bytes }, Some(on)) = (&mut *state, *link) else {
                continue;
            };
            let share = self.speed(on) / users[&on];
            let moved = (share as f64 * passed.as_secs_f64()) as u64;
            *link_bytes = link_bytes.saturating_sub(moved);
            if *link_bytes == 0 {
                (*state, *link) = (State::Resident, None);
                ended = true;
            }
        }
        drop(inner);
        if ended {
            self.changed.notify_waiters();
        }
    }

    fn speed(&self, link: Link) -> u64 {
        match link {
            Link::Switch(_) => self.rules.bytes_per_s,
            Link::Peer(from, to) => self.rules.peers.unwrap()[usize::from(from / 2 != to / 2)],
        }
    }

    /// Begins a load, if the model is not there.
    pub fn load(&self, gpu: usize, model: &Model) -> Result<(), Full> {
        let mut inner = self.inner.lock().unwrap();
        if inner.memories[gpu].models.contains_key(&model.name) {
            return Ok(());
        }
        let missing: Vec<(String, u64)> = inner.memories[gpu]
            .missing(model)
            .into_iter()
            .cloned()
            .collect();
        let bytes: u64 = missing.iter().map(|(_, bytes)| bytes).sum();
        if inner.memories[gpu].used() + bytes > self.rules.capacity_bytes {
            return Err(Full);
        }
        let has_all = |other: &Memory| {
            let resident = other
                .models
                .iter()
                .filter(|(_, (state, _))| *state == State::Resident);
            let mut models = resident.filter_map(|(name, _)| self.model(name));
            models.any(|model| missing.iter().all(|part| model.parts.contains(part)))
        };
        let peer = self.rules.peers.and_then(|_| {
            let others = (0..self.rules.gpus).filter(|&other| other != gpu);
            let mut there = others.filter(|&other| has_all(&inner.memories[other]));
            let near = there.clone().find(|other| other / 2 == gpu / 2);
            near.or_else(|| there.next())
        });
        let link = match peer {
            Some(from) => Link::Peer(from, gpu),
            None => Link::Switch(gpu / 2),
        };
        if peer.is_some() {
            inner.peer_bytes += bytes;
        } else {
            inner.host_bytes += bytes;
        }
        inner.loads += 1;
        let memory = &mut inner.memories[gpu];
        for (id, bytes) in &model.parts {
            memory.parts.entry(id.clone()).or_insert((*bytes, 0)).1 += 1;
        }
        let state = State::Loading { link_bytes: bytes };
        memory
            .models
            .insert(model.name.clone(), (state, Some(link)));
        Ok(())
    }

    pub fn unload(&self, gpu: usize, model: &Model) {
        let mut inner = self.inner.lock().unwrap();
        let memory = &mut inner.memories[gpu];
        if memory.models.remove(&model.name).is_some() {
            for (id, _) in &model.parts {
                let (_, users) = memory.parts.get_mut(id).unwrap();
                *users -= 1;
                if *users == 0 {
                    memory.parts.remove(id);
                }
            }
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Drops all models of a GPU, as the end of an executor or its mirror does.
    pub fn clear(&self, gpu: usize) {
        self.inner.lock().unwrap().memories[gpu] = Memory::default();
        self.changed.notify_waiters();
    }

    pub fn state(&self, gpu: usize, model: &str) -> Option<State> {
        let inner = self.inner.lock().unwrap();
        let (state, _) = inner.memories[gpu].models.get(model)?;
        Some(state.clone())
    }

    pub fn used(&self, gpu: usize) -> u64 {
        self.inner.lock().unwrap().memories[gpu].used()
    }

    /// Bytes that loads moved from the host and between GPUs, and the number of loads.
    pub fn moved(&self) -> (u64, u64, u64) {
        let inner = self.inner.lock().unwrap();
        (inner.host_bytes, inner.peer_bytes, inner.loads)
    }
}
