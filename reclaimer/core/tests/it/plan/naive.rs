//! The rules of `plan`, as slow and simple as possible: every choice scans everything again.

use std::collections::{BTreeMap, BTreeSet};

use tetris_reclaimer_core::{
    Expiry, ModelSnapshot, ModelState, ObjectSnapshot, Order, Reason, RecordId, Snapshot, State,
    StorePolicy, StoreSnapshot, StoreState,
};
use tetris_store_layout::ObjectId;

use crate::plan::generate::{Case, NOW_MS};

/// Store, index and reason of each object to free, in order.
pub type Freed = Vec<(usize, u32, Reason)>;

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Expired,
    Ripe,
    Any,
}

struct Naive<'a> {
    case: &'a Case,
    freed: Freed,
    /// Objects that a step skipped because they exceed the store's excess.
    too_big: BTreeSet<(usize, u32)>,
}

pub fn plan(case: &Case) -> Freed {
    let mut naive = Naive {
        case,
        freed: Vec::new(),
        too_big: BTreeSet::new(),
    };
    let mounts = 0..case.snapshot.mounts.len();
    mounts.clone().for_each(|mount| naive.requests(mount));
    mounts.clone().for_each(|mount| naive.expired(mount));
    mounts.clone().for_each(|mount| naive.limits(mount));
    mounts.for_each(|mount| naive.watermarks(mount));
    naive.freed
}

impl Naive<'_> {
    fn snapshot(&self) -> &Snapshot {
        &self.case.snapshot
    }

    fn store(&self, store: usize) -> &StoreSnapshot {
        &self.snapshot().stores[store]
    }

    fn policy(&self, store: usize) -> &StorePolicy {
        self.case.policy.of(&self.store(store).name)
    }

    /// The generated names sort like their numbers.
    fn stores(&self, mount: usize) -> Vec<usize> {
        let all = 0..self.snapshot().stores.len();
        all.filter(|&store| self.store(store).mount == mount)
            .collect()
    }

    fn freed_on(&self, mount: usize) -> u64 {
        let freed = self.freed.iter();
        freed
            .filter(|(store, _, _)| self.store(*store).mount == mount)
            .map(|(store, object, _)| self.object(*store, *object).allocated_bytes)
            .sum()
    }

    fn left(&self, store: usize) -> u64 {
        let objects = 0..self.store(store).objects.len() as u32;
        let left: u64 = objects
            .filter(|object| !self.is_freed(store, *object))
            .map(|object| self.object(store, object).allocated_bytes)
            .sum();
        left + self.store(store).record_bytes
    }

    fn object(&self, store: usize, object: u32) -> &ObjectSnapshot {
        &self.store(store).objects[object as usize]
    }

    fn is_freed(&self, store: usize, object: u32) -> bool {
        let mut freed = self.freed.iter();
        freed.any(|(s, o, _)| (*s, *o) == (store, object))
    }

    fn wanting(&self, store: usize, object: u32) -> impl Iterator<Item = &ModelSnapshot> {
        let models = self.store(store).models.iter();
        models.filter(move |model| model.objects.contains(&object))
    }

    fn last_use(&self, store: usize, object: u32) -> u64 {
        let this = self.object(store, object);
        let models = self
            .wanting(store, object)
            .map(|model| model.last_use_ms)
            .max();
        this.published_ms
            .max(this.last_use_ms)
            .max(models.unwrap_or(0))
    }

    fn window_secs(&self, store: usize, model: Option<&RecordId>) -> u64 {
        let policy = self.policy(store);
        let learned = self.case.state.store(&self.store(store).name);
        let learned = model.and_then(|id| learned.and_then(|state| state.model(id)));
        let secs = match policy.expiry {
            Expiry::Never => 1 << 40,
            Expiry::Fixed => policy.expire_after_secs,
            Expiry::Learned => learned.map_or(policy.learned.standard_secs, |model| {
                model.idle().window(&policy.learned).keep_alive_secs
            }),
        };
        secs.max(policy.keep_alive_secs)
    }

    fn expired_at(&self, store: usize, object: u32) -> bool {
        let this = self.object(store, object);
        let used_alone = this.published_ms.max(this.last_use_ms);
        let mut windows: Vec<u64> = self
            .wanting(store, object)
            .map(|model| {
                used_alone.max(model.last_use_ms) + self.window_secs(store, Some(&model.id)) * 1000
            })
            .collect();
        if windows.is_empty() {
            windows.push(used_alone + self.window_secs(store, None) * 1000);
        }
        windows.iter().all(|end_ms| *end_ms <= NOW_MS)
    }

    fn priority(&self, store: usize, object: u32) -> u64 {
        match self.policy(store).order {
            Order::Lru => return 0,
            Order::GreedyDual => {}
        }
        let state: &State = &self.case.state;
        let state = state.store(&self.store(store).name);
        let (mut clock, mut value) = (0, 0);
        for model in self.wanting(store, object) {
            let known = state.and_then(|state| state.model(&model.id));
            let uses = known.map_or(1, |known| known.uses().max(1));
            let seen = known.map_or(state.map_or(0, StoreState::clock), ModelState::clock);
            clock = clock.max(seen);
            value += u64::from(uses) * model.reload_ms * (1 << 30) / model.total_bytes;
        }
        clock + value
    }

    /// The cheapest object of a store that may be freed and is not too large.
    fn cheapest(&mut self, store: usize, which: Which, most_bytes: u64) -> Option<u32> {
        let candidates = 0..self.store(store).objects.len() as u32;
        let mut candidates: Vec<u32> = candidates
            .filter(|&object| {
                let young = NOW_MS - self.last_use(store, object)
                    < self.policy(store).keep_alive_secs * 1000;
                let allowed = match which {
                    Which::Expired => self.expired_at(store, object),
                    Which::Ripe => !young,
                    Which::Any => true,
                };
                allowed
                    && !self.object(store, object).held
                    && !self.wanting(store, object).any(|model| model.warm)
                    && !self.is_freed(store, object)
                    && !self.too_big.contains(&(store, object))
            })
            .collect();
        candidates.sort_by_key(|&object| {
            let key: (bool, u64, u64, ObjectId) = (
                !self.expired_at(store, object),
                self.priority(store, object),
                self.last_use(store, object),
                self.object(store, object).id,
            );
            key
        });
        for object in candidates {
            if self.object(store, object).allocated_bytes <= most_bytes {
                return Some(object);
            }
            self.too_big.insert((store, object));
        }
        None
    }

    fn free(&mut self, store: usize, object: u32, reason: Reason) {
        let reason = match (reason, self.policy(store).order) {
            _ if self.expired_at(store, object) => Reason::KeepAliveExpired,
            (Reason::OverWatermark, Order::Lru) => Reason::OverWatermark,
            (Reason::OverWatermark, Order::GreedyDual) => Reason::Cost,
            (Reason::KeepAliveExpired | Reason::Pressure | Reason::OverQuota | Reason::Cost, _) => {
                reason
            }
        };
        self.freed.push((store, object, reason));
    }

    /// Without a percentage, a guarantee is bytes of the configuration, at most the limit.
    fn guaranteed(&self, store: usize) -> u64 {
        let policy = self.policy(store);
        let limit = policy.limit_bytes.unwrap_or(u64::MAX);
        policy.guaranteed_bytes.min(limit)
    }

    fn excess(&self, store: usize) -> u64 {
        self.left(store).saturating_sub(self.guaranteed(store))
    }

    /// Bytes that guarantees on the mount still lack when `asked` is there as well.
    fn unused(&self, mount: usize, asked: &BTreeMap<usize, u64>) -> u64 {
        let lacking = |store: usize| {
            let then = self.left(store) + asked.get(&store).copied().unwrap_or(0);
            self.guaranteed(store).saturating_sub(then)
        };
        self.stores(mount).into_iter().map(lacking).sum()
    }

    /// Bytes missing for what is asked for: those of guarantees as well, if a store asks
    /// for more than its own.
    fn missing(&self, mount: usize, asked: &BTreeMap<usize, u64>) -> u64 {
        let beyond = |(store, asked): (&usize, &u64)| {
            *asked > 0 && self.left(*store) + asked > self.guaranteed(*store)
        };
        let kept = if asked.iter().any(beyond) {
            self.unused(mount, asked)
        } else {
            0
        };
        let free = self.snapshot().mounts[mount].free_bytes + self.freed_on(mount);
        (asked.values().sum::<u64>() + kept).saturating_sub(free)
    }

    fn take_from_the_richest(
        &mut self,
        mount: usize,
        which: Which,
        reason: Reason,
        missing: impl Fn(&Self) -> u64,
    ) {
        self.too_big.clear();
        let mut empty = BTreeSet::new();
        while missing(self) > 0 {
            let mut stores = self.stores(mount);
            stores.retain(|store| self.excess(*store) > 0 && !empty.contains(store));
            stores.sort_by_key(|store| (u64::MAX - self.excess(*store), *store));
            let Some(&store) = stores.first() else {
                break;
            };
            let own_need = reason == Reason::Pressure && self.asks(store);
            let most = if own_need {
                u64::MAX
            } else {
                self.excess(store)
            };
            match self.cheapest(store, which, most) {
                Some(object) => self.free(store, object, reason),
                None => {
                    empty.insert(store);
                }
            }
        }
        self.too_big.clear();
    }

    fn asked(&self, store: usize) -> u64 {
        let requests = self.snapshot().requests.iter();
        requests
            .filter(|ask| ask.store == store)
            .map(|ask| ask.bytes)
            .sum()
    }

    fn asks(&self, store: usize) -> bool {
        let mut requests = self.snapshot().requests.iter();
        requests.any(|ask| ask.store == store)
    }

    fn requests(&mut self, mount: usize) {
        let stores = self.stores(mount);
        let waits = |ask: &tetris_reclaimer_core::RoomRequest| stores.contains(&ask.store);
        if !self.snapshot().requests.iter().any(waits) {
            return;
        }
        let mut asked = BTreeMap::new();
        for &store in &stores {
            let by_store = self.asked(store);
            asked.insert(store, by_store);
            if let Some(limit) = self.policy(store).limit_bytes
                && by_store > 0
            {
                while self.left(store) + by_store > limit {
                    let Some(object) = self.cheapest(store, Which::Any, u64::MAX) else {
                        break;
                    };
                    self.free(store, object, Reason::Pressure);
                }
                let over = (self.left(store) + by_store).saturating_sub(limit);
                asked.insert(store, by_store.saturating_sub(over));
            }
        }
        let missing = |naive: &Self| naive.missing(mount, &asked);
        for &store in &stores {
            while missing(self) > 0
                && let Some(object) = self.cheapest(store, Which::Expired, u64::MAX)
            {
                self.free(store, object, Reason::Pressure);
            }
        }
        self.take_from_the_richest(mount, Which::Any, Reason::Pressure, missing);
        for &store in &stores {
            let mut given = 0;
            while missing(self) > 0
                && given < self.asked(store)
                && let Some(object) = self.cheapest(store, Which::Any, u64::MAX)
            {
                given += self.object(store, object).allocated_bytes;
                self.free(store, object, Reason::Pressure);
            }
        }
    }

    fn expired(&mut self, mount: usize) {
        for store in self.stores(mount) {
            while let Some(object) = self.cheapest(store, Which::Expired, u64::MAX) {
                self.free(store, object, Reason::KeepAliveExpired);
            }
        }
    }

    fn limits(&mut self, mount: usize) {
        for store in self.stores(mount) {
            let limit = self.policy(store).limit_bytes.unwrap_or(u64::MAX);
            while self.left(store) > limit
                && let Some(object) = self.cheapest(store, Which::Ripe, u64::MAX)
            {
                self.free(store, object, Reason::OverQuota);
            }
        }
    }

    fn watermarks(&mut self, mount: usize) {
        let room = self.snapshot().mounts[mount];
        let config = self.case.policy.config();
        let mark = |percent: u32| room.capacity_bytes * u64::from(percent) / 100;
        let used = |naive: &Self| room.capacity_bytes - room.free_bytes - naive.freed_on(mount);
        let full = used(self) > mark(config.high_watermark_percent) || room.draining;
        let low = if full {
            mark(config.low_watermark_percent)
        } else {
            u64::MAX
        };
        self.take_from_the_richest(mount, Which::Ripe, Reason::OverWatermark, |naive| {
            let over = used(naive).saturating_sub(low);
            let free = room.free_bytes + naive.freed_on(mount);
            over.max(naive.unused(mount, &BTreeMap::new()).saturating_sub(free))
        });
    }
}
