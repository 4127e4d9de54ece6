//! Simulation of one policy on one trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};
use tetris_reclaimer_core::{
    Event, ModelSnapshot, MountSnapshot, ObjectSnapshot, Policy, ReloadCost, RoomRequest, Snapshot,
    SnapshotError, State, StoreSnapshot, plan,
};

use crate::catalog::Catalog;
use crate::trace::Request;

/// Cost of a load: two seconds to start, then the rate of reading, hashing and publishing on two
/// cores.
pub const RELOAD: ReloadCost = ReloadCost {
    fixed_ms: 2000,
    bytes_per_sec: 3_500_000_000,
};

/// Interval of the daemon's full passes, in milliseconds.
const PASS_MS: u64 = 60_000;

/// Outcome of a policy on a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayOutcome {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests whose whole model was in the store.
    pub warm_requests: u64,
    /// Number of bytes that requests needed.
    pub wanted_bytes: u64,
    /// Number of these bytes that were in the store.
    pub hit_bytes: u64,
    /// Number of bytes without room in the store, which went to private memory.
    pub private_bytes: u64,
    /// Time spent on loading missing bytes, in seconds.
    pub reload_secs: f64,
    /// Memory in use over time, including private memory, in GiB-hours.
    pub gib_hours: f64,
    /// Number of freed objects.
    pub freed_objects: u64,
}

impl ReplayOutcome {
    /// Share of the needed bytes that were in the store.
    pub fn hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.wanted_bytes.max(1) as f64
    }
}

/// Runs `policy` on `trace` against a store of `capacity_bytes`.
///
/// An instance maps the objects in the store, requests room for the others and loads them, holds
/// the model for a while, and releases it. A pass runs every minute.
///
/// # Errors
///
/// [`SnapshotError`] if the simulator creates a contradictory snapshot.
pub fn simulate(
    catalog: &Catalog,
    trace: &[Request],
    policy: &Policy,
    capacity_bytes: u64,
) -> Result<ReplayOutcome, SnapshotError> {
    let mut node = Node::new(catalog, policy, capacity_bytes);
    let mut releases: BinaryHeap<Reverse<Release>> = BinaryHeap::new();
    let mut next_pass_ms = PASS_MS;
    for request in trace {
        // Processes the events before the request, in order.
        loop {
            let release_ms = releases
                .peek()
                .map_or(u64::MAX, |Reverse(release)| release.at_ms);
            if next_pass_ms.min(release_ms) > request.at_ms {
                break;
            }
            if release_ms <= next_pass_ms {
                if let Some(Reverse(release)) = releases.pop() {
                    node.release(&release);
                }
            } else {
                node.pass_time(next_pass_ms);
                node.reclaim(None)?;
                next_pass_ms += PASS_MS;
            }
        }
        releases.push(Reverse(node.load(request)?));
    }
    node.outcome.gib_hours = node.byte_ms / GIB / HOUR_MS;
    Ok(node.outcome)
}

const GIB: f64 = (1_u64 << 30) as f64;
const HOUR_MS: f64 = 3_600_000.0;
const STORE: &str = "replay";

/// The release of a model by an instance.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    at_ms: u64,
    model: usize,
    /// Objects of the store that the instance maps.
    mapped: Vec<usize>,
    private_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Tensor {
    present: bool,
    holders: u32,
    published_ms: u64,
    last_use_ms: u64,
}

#[derive(Clone, Copy, Default)]
struct Use {
    instances: u32,
    last_use_ms: u64,
}

/// The simulated node.
struct Node<'a> {
    catalog: &'a Catalog,
    policy: &'a Policy,
    capacity_bytes: u64,
    now_ms: u64,
    used_bytes: u64,
    private_bytes: u64,
    tensors: Vec<Tensor>,
    models: Vec<Use>,
    state: State,
    byte_ms: f64,
    outcome: ReplayOutcome,
}

impl<'a> Node<'a> {
    fn new(catalog: &'a Catalog, policy: &'a Policy, capacity_bytes: u64) -> Self {
        Self {
            catalog,
            policy,
            capacity_bytes,
            now_ms: 0,
            used_bytes: 0,
            private_bytes: 0,
            tensors: vec![Tensor::default(); catalog.objects.len()],
            models: vec![Use::default(); catalog.models.len()],
            state: State::default(),
            byte_ms: 0.0,
            outcome: ReplayOutcome::default(),
        }
    }

    fn pass_time(&mut self, now_ms: u64) {
        let bytes = (self.used_bytes + self.private_bytes) as f64;
        self.byte_ms += bytes * now_ms.saturating_sub(self.now_ms) as f64;
        self.now_ms = now_ms.max(self.now_ms);
    }

    fn load(&mut self, request: &Request) -> Result<Release, SnapshotError> {
        self.pass_time(request.at_ms);
        let mut release = Release {
            at_ms: request.at_ms + request.hold_ms,
            model: request.model,
            mapped: Vec::new(),
            private_bytes: 0,
        };
        let catalog = self.catalog;
        let Some(model) = catalog.models.get(request.model) else {
            return Ok(release);
        };
        let mut absent = Vec::new();
        for &object in &model.objects {
            match self.tensors.get_mut(object) {
                Some(tensor) if tensor.present => {
                    tensor.holders += 1;
                    release.mapped.push(object);
                }
                _ => absent.push(object),
            }
        }
        let bytes_of = |object: usize| catalog.objects.get(object).map_or(0, |o| o.1);
        let missing_bytes: u64 = absent.iter().map(|&object| bytes_of(object)).sum();
        self.outcome.requests += 1;
        self.outcome.wanted_bytes += model.total_bytes;
        self.outcome.hit_bytes += model.total_bytes - missing_bytes;
        if absent.is_empty() {
            self.outcome.warm_requests += 1;
        } else {
            let reload_ms = RELOAD.of(missing_bytes);
            self.outcome.reload_secs += reload_ms as f64 / 1000.0;
            release.at_ms += reload_ms;
        }
        if missing_bytes > self.capacity_bytes - self.used_bytes {
            self.reclaim(Some(missing_bytes))?;
        }
        for object in absent {
            let bytes = bytes_of(object);
            if self.used_bytes + bytes > self.capacity_bytes {
                release.private_bytes += bytes;
            } else if let Some(tensor) = self.tensors.get_mut(object) {
                *tensor = Tensor {
                    present: true,
                    holders: 1,
                    published_ms: self.now_ms,
                    last_use_ms: self.now_ms,
                };
                self.used_bytes += bytes;
                release.mapped.push(object);
            }
        }
        self.private_bytes += release.private_bytes;
        self.outcome.private_bytes += release.private_bytes;
        if let Some(used) = self.models.get_mut(request.model) {
            used.instances += 1;
            used.last_use_ms = self.now_ms;
        }
        let loaded = Event::Loaded {
            model: model.id,
            at_ms: self.now_ms,
        };
        self.state.observe(STORE, loaded);
        Ok(release)
    }

    fn release(&mut self, release: &Release) {
        self.pass_time(release.at_ms);
        self.private_bytes -= release.private_bytes;
        for &object in &release.mapped {
            if let Some(tensor) = self.tensors.get_mut(object) {
                tensor.holders -= 1;
                tensor.last_use_ms = self.now_ms;
            }
        }
        let model = self.catalog.models.get(release.model);
        if let (Some(used), Some(model)) = (self.models.get_mut(release.model), model) {
            used.instances -= 1;
            used.last_use_ms = self.now_ms;
            if used.instances == 0 {
                let released = Event::Released {
                    model: model.id,
                    at_ms: self.now_ms,
                };
                self.state.observe(STORE, released);
            }
        }
    }

    /// Makes a plan and carries it out.
    fn reclaim(&mut self, need_bytes: Option<u64>) -> Result<(), SnapshotError> {
        let (snapshot, place) = self.snapshot(need_bytes);
        let plan = plan(&snapshot, self.policy, &self.state, self.now_ms, usize::MAX)?;
        for action in &plan.actions {
            let tensor = place
                .get(action.object as usize)
                .and_then(|&object| self.tensors.get_mut(object));
            if let Some(tensor) = tensor {
                *tensor = Tensor::default();
                self.used_bytes -= action.bytes;
                self.outcome.freed_objects += 1;
            }
            self.state.freed(STORE, action);
        }
        for change in plan.models.iter().filter(|change| change.gone) {
            self.state.observe(STORE, Event::Gone { model: change.id });
        }
        Ok(())
    }

    /// The daemon's view, and for each object in it the index in the catalog.
    fn snapshot(&self, need_bytes: Option<u64>) -> (Snapshot, Vec<usize>) {
        let mut place = Vec::new();
        let mut index_of: Vec<Option<u32>> = vec![None; self.tensors.len()];
        let mut objects = Vec::new();
        let all = self.catalog.objects.iter().zip(&self.tensors);
        for ((object, ((id, bytes), tensor)), index) in all.enumerate().zip(&mut index_of) {
            if tensor.present {
                *index = u32::try_from(objects.len()).ok();
                place.push(object);
                objects.push(ObjectSnapshot {
                    id: *id,
                    len_bytes: *bytes,
                    allocated_bytes: *bytes,
                    published_ms: tensor.published_ms,
                    last_use_ms: tensor.last_use_ms,
                    held: tensor.holders > 0,
                });
            }
        }
        let models = self.catalog.models.iter().zip(&self.models);
        let models = models.map(|(model, used)| ModelSnapshot {
            id: model.id,
            objects: model
                .objects
                .iter()
                .filter_map(|&object| index_of.get(object).copied().flatten())
                .collect(),
            total_bytes: model.total_bytes,
            last_use_ms: used.last_use_ms,
            reload_ms: RELOAD.of(model.total_bytes),
            warm: false,
        });
        let store = StoreSnapshot {
            name: STORE.to_owned(),
            objects,
            models: models.collect(),
            // Traces are of objects; records are a thousandth of them.
            ..StoreSnapshot::default()
        };
        let requests = need_bytes.map(|bytes| RoomRequest {
            bytes,
            ..RoomRequest::default()
        });
        let snapshot = Snapshot {
            mounts: vec![MountSnapshot {
                capacity_bytes: self.capacity_bytes,
                free_bytes: self.capacity_bytes - self.used_bytes,
                ..MountSnapshot::default()
            }],
            stores: vec![store],
            requests: requests.into_iter().collect(),
        };
        (snapshot, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::generate;
    use tetris_simulation::TraceKind;

    #[test]
    fn a_store_for_everything_loads_everything_once() {
        let catalog = Catalog::generate(1);
        let trace = generate(TraceKind::Stable, catalog.models.len(), 24, 1);
        let plenty = catalog.distinct_bytes() * 2;
        let outcome = simulate(&catalog, &trace, &Policy::default(), plenty).unwrap();
        assert_eq!(outcome.freed_objects, 0);
        assert_eq!(outcome.private_bytes, 0);
        // A model is warm at once if another one brought all of its objects; here each has objects
        // of it.
        let cold = outcome.requests - outcome.warm_requests;
        assert!(cold <= catalog.models.len() as u64);
        let missed = outcome.wanted_bytes - outcome.hit_bytes;
        assert!(missed <= catalog.distinct_bytes());
    }

    #[test]
    fn a_store_for_nothing_keeps_everything_private() {
        let catalog = Catalog::generate(1);
        let trace = generate(TraceKind::Bursty, catalog.models.len(), 6, 1);
        let outcome = simulate(&catalog, &trace, &Policy::default(), 0).unwrap();
        assert_eq!(outcome.private_bytes, outcome.wanted_bytes);
        assert_eq!(outcome.hit_bytes, 0);
    }
}
