//! A dispatcher, and a second account of its requests and instances to compare it with.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::Slo;
use tetris_scaler_dispatch::{
    Capacity, Dispatch, Dispatcher, Ejection, InstanceId, Outcome, RequestId, Rules,
};

pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;

pub fn rules(slo_ms: u64) -> Rules {
    let mut rules = Rules::new(Slo::try_from_us(slo_ms * MS).unwrap());
    rules.slow_start_us = 0;
    rules
}

pub fn capacity(batch: u32, concurrency: u32, latency_ms: u64) -> Capacity {
    Capacity {
        batch,
        concurrency,
        latency_us: latency_ms * MS,
        batch_wait_us: if batch > 1 { latency_ms * MS } else { 0 },
        rate: None,
    }
}

/// Requests and instances as a plain account sees them.
pub struct World {
    pub dispatcher: Dispatcher,
    pub now_us: u64,
    /// Accepted requests that wait, with their deadlines.
    pub waiting: BTreeMap<u64, u64>,
    /// The instances of requests that may go to some alone.
    pub among: BTreeMap<u64, BTreeSet<u64>>,
    /// Dispatched requests, with their instances and deadlines.
    pub in_flight: BTreeMap<u64, (u64, u64)>,
    /// Requests that came to an end.
    pub ended: BTreeSet<u64>,
    pub draining: BTreeSet<u64>,
    pub instances: BTreeMap<u64, Capacity>,
    /// Longest latency and longest wait for a batch that an instance ever had: requests join a batch that began under
    /// an earlier capacity.
    slowest: BTreeMap<u64, (u64, u64)>,
    /// Requests whose instance was removed meanwhile.
    pub orphans: BTreeSet<u64>,
    next: u64,
}

impl World {
    pub fn new(rules: Rules) -> Self {
        Self {
            dispatcher: Dispatcher::new(rules),
            now_us: SECOND,
            waiting: BTreeMap::new(),
            among: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            ended: BTreeSet::new(),
            draining: BTreeSet::new(),
            instances: BTreeMap::new(),
            slowest: BTreeMap::new(),
            orphans: BTreeSet::new(),
            next: 0,
        }
    }

    pub fn add(&mut self, id: u64, capacity: Capacity) {
        self.dispatcher
            .add_instance(self.now_us, InstanceId(id), capacity);
        self.draining.remove(&id);
        self.instances.insert(id, capacity);
        let slowest = self.slowest.entry(id).or_default();
        slowest.0 = slowest.0.max(capacity.latency_us);
        slowest.1 = slowest.1.max(capacity.batch_wait_us);
    }

    pub fn drain(&mut self, id: u64) {
        self.dispatcher.drain_instance(InstanceId(id));
        if self.instances.contains_key(&id) {
            self.draining.insert(id);
        }
    }

    pub fn remove(&mut self, id: u64) {
        self.dispatcher.remove_instance(InstanceId(id));
        self.draining.remove(&id);
        self.instances.remove(&id);
        self.slowest.remove(&id);
        let its = self.in_flight.iter().filter(|(_, (at, _))| *at == id);
        self.orphans.extend(its.map(|(&request, _)| request));
    }

    /// Offers a request; returns its number if it is accepted.
    pub fn offer(&mut self, wait_us: Option<u64>) -> Option<u64> {
        let id = self.next;
        self.next += 1;
        self.compare_start(RequestId(id), wait_us);
        self.dispatcher
            .offer(self.now_us, RequestId(id), wait_us)
            .ok()?;
        self.waiting
            .insert(id, self.now_us + self.dispatcher.rules().slo.us());
        Some(id)
    }

    /// Checks that a request that need not wait is dispatched as it would be by the queue.
    fn compare_start(&self, id: RequestId, wait_us: Option<u64>) {
        let alone = self.waiting.is_empty();
        let (mut at_once, mut queued) = (self.dispatcher.clone(), self.dispatcher.clone());
        let started = at_once.start(self.now_us, id, wait_us);
        let offered = queued.offer(self.now_us, id, wait_us);
        let dispatched = offered.map(|()| alone.then(|| queued.dispatch(self.now_us)).flatten());
        assert_eq!(started, dispatched);
        assert_eq!(at_once.load(), queued.load());
        assert_eq!(at_once.next_us(), queued.next_us());
        assert!(at_once.instances().eq(queued.instances()));
        assert_eq!(at_once.dispatch(self.now_us), queued.dispatch(self.now_us));
    }

    /// Offers a request that may go to these instances alone.
    pub fn offer_among(&mut self, wait_us: Option<u64>, among: &[u64]) -> Option<u64> {
        let id = self.next;
        self.next += 1;
        let ids = among.iter().map(|&id| InstanceId(id)).collect();
        self.dispatcher
            .offer_among(self.now_us, RequestId(id), wait_us, ids)
            .ok()?;
        self.waiting
            .insert(id, self.now_us + self.dispatcher.rules().slo.us());
        self.among.insert(id, among.iter().copied().collect());
        Some(id)
    }

    fn allows(&self, request: u64, instance: u64) -> bool {
        let among = self.among.get(&request);
        among.is_none_or(|among| among.contains(&instance))
    }

    /// Dispatches all that can be dispatched, and checks each against the account.
    pub fn dispatch(&mut self) -> Vec<Dispatch> {
        let mut all = Vec::new();
        while let Some(dispatch) = self.dispatcher.dispatch(self.now_us) {
            let (request, instance) = (dispatch.request.0, dispatch.instance.0);
            let deadline = self
                .waiting
                .remove(&request)
                .expect("only a waiting request is dispatched, and once");
            assert!(self.allows(request, instance), "it may not go there");
            let others = self.waiting.iter();
            let earlier = others.filter(|(_, due)| **due < deadline);
            for (&other, &due) in earlier.filter(|(other, _)| self.allows(**other, instance)) {
                assert!(
                    self.has_time(other, due),
                    "one with an earlier deadline waits, and has no time to wait for a faster instance"
                );
                assert!(
                    self.now_us + self.longest_us(instance) > due,
                    "one with an earlier deadline waits, and would be in time on the same instance"
                );
            }
            assert!(self.instances.contains_key(&instance) && !self.draining.contains(&instance));
            self.in_flight.insert(request, (instance, deadline));
            all.push(dispatch);
        }
        all
    }

    /// True if an instance can serve a request until it is due.
    fn has_time(&self, request: u64, due: u64) -> bool {
        let ready = self.instances.iter();
        let mut ready = ready.filter(|(id, _)| !self.draining.contains(id));
        ready.any(|(&id, instance)| {
            self.allows(request, id) && self.now_us + instance.latency_us <= due
        })
    }

    /// Longest time until the result of a request on an instance that has room: it waits for a batch to
    /// start and for another one to end, and the instance is as slow as it can be.
    fn longest_us(&self, instance: u64) -> u64 {
        let (latency_us, batch_wait_us) = self.slowest[&instance];
        let slowdown = self
            .dispatcher
            .instances()
            .find(|of| of.instance.0 == instance);
        let slowdown = slowdown.map_or(1_000, |of| of.slowdown_permille);
        3 * (latency_us * slowdown / 1_000) + batch_wait_us
    }

    pub fn complete(&mut self, id: u64, outcome: Outcome) {
        self.dispatcher
            .complete(self.now_us, RequestId(id), outcome);
        if self.in_flight.remove(&id).is_some() {
            self.ended.insert(id);
        }
    }

    pub fn give_back(&mut self, id: u64) {
        self.dispatcher.give_back(self.now_us, RequestId(id));
        if let Some((_, deadline)) = self.in_flight.remove(&id) {
            self.orphans.remove(&id);
            self.waiting.insert(id, deadline);
        }
    }

    pub fn cancel(&mut self, id: u64) {
        self.dispatcher.cancel(RequestId(id));
        let known = self.waiting.remove(&id).is_some() | self.in_flight.remove(&id).is_some();
        if known {
            self.ended.insert(id);
        }
    }

    pub fn expire(&mut self) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(RequestId(id)) = self.dispatcher.expire(self.now_us) {
            assert!(
                self.waiting.remove(&id).is_some(),
                "only waiting requests expire"
            );
            self.ended.insert(id);
            all.push(id);
        }
        all
    }

    /// Checks what holds after `dispatch` at any time.
    pub fn check(&self) {
        let load = self.dispatcher.load();
        assert_eq!(load.waiting, self.waiting.len(), "no request is lost");
        assert_eq!(load.in_flight, self.in_flight.len());
        for entry in self.dispatcher.instances() {
            let its = self
                .in_flight
                .iter()
                .filter(|(id, (at, _))| *at == entry.instance.0 && !self.orphans.contains(id));
            assert_eq!(entry.outstanding, its.count() as u64, "{entry:?}");
            let known = self.instances.get(&entry.instance.0).unwrap();
            assert!(
                entry.room <= known.room()
                    && entry.draining == self.draining.contains(&entry.instance.0)
            );
            let free = entry.outstanding < entry.room;
            let mut waiting = self.waiting.keys();
            assert!(
                !free || !waiting.any(|&request| self.allows(request, entry.instance.0)),
                "work conserving: {entry:?} has room, and {load:?}"
            );
        }
    }
}

pub const EJECTS_ALL: Ejection = Ejection {
    most_percent: 100,
    ..Ejection::USUAL
};
