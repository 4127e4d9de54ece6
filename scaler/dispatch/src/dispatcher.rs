//! The dispatcher of one function.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::capacity::Capacity;
use crate::choice::{Choice, choose};
use crate::id::{InstanceId, RequestId};
use crate::instance::Instance;
use crate::load::{FunctionLoad, InstanceLoad};
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::rules::Rules;
use crate::waiting::{Request, Waiting};

/// Time after which a refused client may try again where no instance suggests another, in microseconds.
const RETRY_US: u64 = 1_000_000;

/// A request that the owner must send to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The request.
    pub request: RequestId,
    /// Its instance.
    pub instance: InstanceId,
    /// Time for which it has waited, in microseconds.
    pub waited_us: u64,
}

#[derive(Clone, Debug)]
struct Flight {
    request: Request,
    instance: InstanceId,
    /// The instance's `birth`: a later one of the same number never had the request.
    birth: u64,
    /// Its batch on the instance.
    batch: u64,
    since_us: u64,
    expected_us: u64,
}

/// Queue and instances of one function.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    rules: Rules,
    instances: BTreeMap<InstanceId, Instance>,
    waiting: Waiting,
    in_flight: HashMap<RequestId, Flight, FixedState>,
    arrivals: u64,
    dispatches: u64,
    births: u64,
    /// Time of the last call that had one.
    now_us: u64,
    /// True if an instance may be ejected.
    ejects: bool,
}

impl Dispatcher {
    /// Creates a dispatcher without instances.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            instances: BTreeMap::new(),
            waiting: Waiting::default(),
            in_flight: HashMap::default(),
            arrivals: 0,
            dispatches: 0,
            births: 0,
            now_us: 0,
            ejects: false,
        }
    }

    /// Rules in force.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Changes the rules. Waiting requests keep their deadlines.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Adds a ready instance, or changes the capacity of a known one. One that was draining gets
    /// requests again.
    pub fn add_instance(&mut self, now_us: u64, id: InstanceId, capacity: Capacity) {
        let births = &mut self.births;
        let instance = self.instances.entry(id).or_insert_with(|| {
            *births = births.saturating_add(1);
            Instance::new(now_us, *births, capacity)
        });
        instance.capacity = capacity;
        if instance.draining {
            instance.returns(now_us);
        }
    }

    /// Stops giving requests to an instance; it keeps those that it has.
    pub fn drain_instance(&mut self, id: InstanceId) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.draining = true;
        }
    }

    /// Forgets an instance. The owner still reports how its requests end.
    pub fn remove_instance(&mut self, id: InstanceId) {
        self.instances.remove(&id);
    }

    /// Queues a request. It waits for at most `wait_us`, or for the rules' time if that is shorter.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, or if the request would wait for too long.
    pub fn offer(
        &mut self,
        now_us: u64,
        id: RequestId,
        wait_us: Option<u64>,
    ) -> Result<(), Rejection> {
        let request = self.accepted(now_us, id, wait_us)?;
        self.waiting.push(request);
        Ok(())
    }

    /// Dispatches a request at once, if no other waits and an instance has room; queues it otherwise.
    /// The same as [`offer`](Self::offer) and then [`dispatch`](Self::dispatch), in less time: most requests
    /// wait for nothing.
    ///
    /// # Errors
    ///
    /// As [`offer`](Self::offer).
    pub fn start(
        &mut self,
        now_us: u64,
        id: RequestId,
        wait_us: Option<u64>,
    ) -> Result<Option<Dispatch>, Rejection> {
        let request = self.accepted(now_us, id, wait_us)?;
        let choice = if self.waiting.is_empty() {
            choose(&self.instances, &request, now_us, &self.rules, 1)
        } else {
            None
        };
        if let Some(Choice { instance, .. }) = choice {
            return Ok(self.send(now_us, request, instance));
        }
        self.waiting.push(request);
        Ok(None)
    }

    /// A request that the queue takes.
    fn accepted(
        &mut self,
        now_us: u64,
        id: RequestId,
        wait_us: Option<u64>,
    ) -> Result<Request, Rejection> {
        self.check_new(id)?;
        self.advance(now_us);
        let wait_us = wait_us.map_or(self.rules.wait_us, |own| own.min(self.rules.wait_us));
        let starts = self.starts(now_us);
        if self.rules.reject_late || !starts {
            self.admit(now_us, wait_us, starts)?;
        }
        Ok(self.request(now_us, id, wait_us, None))
    }

    /// Queues a request that may go to some instances alone. No one knows how many others wait for
    /// the same ones, so its wait is not estimated: a full queue alone refuses it.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, and none of them has room.
    pub fn offer_among(
        &mut self,
        now_us: u64,
        id: RequestId,
        wait_us: Option<u64>,
        among: BTreeSet<InstanceId>,
    ) -> Result<(), Rejection> {
        self.check_new(id)?;
        self.advance(now_us);
        let waiting = self.waiting.len();
        let mut known = self.instances.iter();
        let starts = known.any(|(id, instance)| {
            among.contains(id) && instance.free(now_us, &self.rules, waiting) > 0
        });
        if waiting >= self.rules.queue && !starts {
            return Err(self.full(now_us));
        }
        let wait_us = wait_us.map_or(self.rules.wait_us, |own| own.min(self.rules.wait_us));
        let request = self.request(now_us, id, wait_us, Some(Arc::new(among)));
        self.waiting.push(request);
        Ok(())
    }

    fn check_new(&self, id: RequestId) -> Result<(), Rejection> {
        if self.waiting.contains(id) || self.in_flight.contains_key(&id) {
            return Err(Rejection::Known);
        }
        Ok(())
    }

    fn request(
        &mut self,
        now_us: u64,
        id: RequestId,
        wait_us: u64,
        among: Option<Arc<BTreeSet<InstanceId>>>,
    ) -> Request {
        self.arrivals = self.arrivals.saturating_add(1);
        Request {
            id,
            arrived_us: now_us,
            deadline_us: now_us.saturating_add(self.rules.slo.us()),
            expires_us: now_us.saturating_add(wait_us),
            number: self.arrivals,
            avoid: None,
            among,
        }
    }

    /// Returns the next request that goes to an instance, if one has room. Call it until it returns
    /// `None` after each change.
    pub fn dispatch(&mut self, now_us: u64) -> Option<Dispatch> {
        self.advance(now_us);
        let (request, id) = self.next(now_us)?;
        let request = self.waiting.remove(request)?;
        self.send(now_us, request, id)
    }

    /// Gives a request that does not wait any more to an instance.
    fn send(&mut self, now_us: u64, request: Request, id: InstanceId) -> Option<Dispatch> {
        self.dispatches = self.dispatches.saturating_add(1);
        let instance = self.instances.get_mut(&id)?;
        let expected_us = instance.service_us().max(1);
        let batch = instance.take(now_us, self.dispatches);
        let waited_us = now_us.saturating_sub(request.arrived_us);
        let request_id = request.id;
        self.in_flight.insert(
            request_id,
            Flight {
                request,
                instance: id,
                birth: instance.birth,
                batch,
                since_us: now_us,
                expected_us,
            },
        );
        Some(Dispatch {
            request: request_id,
            instance: id,
            waited_us,
        })
    }

    /// The first request in the order of deadlines that an instance has room for, with its instance.
    /// One that may go to some instances alone does not hold up the others, and one that would be late
    /// gives way.
    fn next(&self, now_us: u64) -> Option<(RequestId, InstanceId)> {
        let waiting = self.waiting.len();
        for request in self.waiting.iter() {
            let choice = choose(&self.instances, request, now_us, &self.rules, waiting);
            if let Some(Choice { instance, late }) = choice {
                let other = late.then(|| self.gives_way(request, instance, now_us));
                return Some((other.flatten().unwrap_or(request.id), instance));
            }
            // Where one that may go to all instances must wait, no instance has room for anybody.
            request.among.as_ref()?;
        }
        None
    }

    /// The request that gets `instance` in the place of one that would be late there: the next that is
    /// in time, or has no time to wait for a faster instance. None, if that one has none either.
    fn gives_way(&self, request: &Request, instance: InstanceId, now_us: u64) -> Option<RequestId> {
        if !self.has_time(request, now_us) {
            return None;
        }
        let slow = self.instances.get(&instance)?;
        let result_us = now_us.saturating_add(slow.estimate_us(now_us));
        let mut later = self.waiting.due_from(request.deadline_us);
        let next = later.find(|entry| {
            let gets = || entry.deadline_us >= result_us || !self.has_time(entry, now_us);
            entry.id != request.id && entry.allows(instance) && gets()
        });
        next.map(|later| later.id)
    }

    /// Returns true if an instance could still serve a request in time, once it has room.
    fn has_time(&self, request: &Request, now_us: u64) -> bool {
        self.instances.iter().any(|(&id, instance)| {
            let result_us = now_us.saturating_add(instance.latency_us());
            instance.is_available() && request.allows(id) && result_us <= request.deadline_us
        })
    }

    /// Ends a dispatched request. Returns the time that its batch waited to be filled, in microseconds, as the dispatcher
    /// reckons.
    pub fn complete(&mut self, now_us: u64, id: RequestId, outcome: Outcome) -> u64 {
        let Some(flight) = self.in_flight.remove(&id) else {
            return 0;
        };
        if outcome == Outcome::Failed {
            self.failed(now_us, &flight, false);
            return 0;
        }
        let Some(instance) = self.of(&flight) else {
            return 0;
        };
        let took_us = now_us.saturating_sub(flight.since_us);
        let expected_us = as_profiled(flight.expected_us, instance);
        let starts_us = instance.release(flight.batch, true);
        let filling_us = starts_us.map_or(0, |starts_us| starts_us.saturating_sub(flight.since_us));
        let filling_us = filling_us.min(took_us);
        instance.health.answered();
        let served_us = took_us.saturating_sub(filling_us);
        instance.slowdown.observe(served_us, expected_us);
        filling_us
    }

    /// Takes back a dispatched request of which nothing was sent, since its instance could not be
    /// reached. It waits again, in its old place, and prefers other instances.
    pub fn give_back(&mut self, now_us: u64, id: RequestId) {
        let Some(flight) = self.in_flight.remove(&id) else {
            return;
        };
        self.failed(now_us, &flight, true);
        self.waiting.push(Request {
            avoid: Some(flight.instance),
            ..flight.request
        });
    }

    /// Forgets a request whose client left, waiting or dispatched. This implies nothing about its
    /// instance.
    pub fn cancel(&mut self, id: RequestId) {
        if self.waiting.remove(id).is_some() {
            return;
        }
        if let Some(flight) = self.in_flight.remove(&id)
            && let Some(instance) = self.of(&flight)
        {
            instance.release(flight.batch, false);
        }
    }

    /// Removes a request that has waited for as long as it may. Call it until it returns `None`.
    pub fn expire(&mut self, now_us: u64) -> Option<RequestId> {
        self.waiting.expired(now_us)
    }

    /// Time at which [`dispatch`](Self::dispatch) or [`expire`](Self::expire) may next return a
    /// request without any other event.
    pub fn next_us(&self) -> Option<u64> {
        let expiry = self.waiting.expires_us()?;
        let ejected = self
            .instances
            .values()
            .filter(|instance| !instance.draining);
        let ends = ejected.filter_map(|instance| instance.health.ejected_until_us());
        Some(ends.fold(expiry, u64::min))
    }

    /// Time of arrival of the waiting request with the earliest deadline, in microseconds.
    pub fn first_arrival_us(&self) -> Option<u64> {
        self.waiting.first().map(|request| request.arrived_us)
    }

    /// Load of the function.
    pub fn load(&self) -> FunctionLoad {
        FunctionLoad {
            waiting: self.waiting.len(),
            in_flight: self.in_flight.len(),
            available: self
                .instances
                .values()
                .filter(|instance| instance.is_available())
                .count(),
        }
    }

    /// Loads of its instances, by their number.
    pub fn instances(&self) -> impl Iterator<Item = InstanceLoad> + '_ {
        self.instances
            .iter()
            .map(|(&instance, entry)| InstanceLoad {
                instance,
                outstanding: entry.outstanding,
                room: entry.room_now(self.now_us, &self.rules, self.waiting.len()),
                draining: entry.draining,
                ejected: entry.health.is_ejected(),
                slowdown_permille: entry.slowdown.permille(),
            })
    }

    /// Counts a failure of an instance, and ejects it if enough others stay.
    fn failed(&mut self, now_us: u64, flight: &Flight, unreachable: bool) {
        let staying = self
            .instances
            .values()
            .filter(|instance| !instance.draining);
        let (all, ejected) = staying.fold((0_u64, 0_u64), |(all, ejected), one| {
            (
                all.saturating_add(1),
                ejected.saturating_add(u64::from(one.health.is_ejected())),
            )
        });
        let most = all
            .saturating_mul(self.rules.ejection.most_percent.into())
            .div_ceil(100);
        let rules = self.rules.ejection;
        if let Some(instance) = self.of(flight) {
            instance.release(flight.batch, false);
            instance
                .health
                .failed(now_us, unreachable, ejected < most, &rules);
            self.ejects = true;
        }
    }

    /// The instance that has the request, if it is still there.
    fn of(&mut self, flight: &Flight) -> Option<&mut Instance> {
        let instance = self.instances.get_mut(&flight.instance);
        instance.filter(|instance| instance.birth == flight.birth)
    }

    fn advance(&mut self, now_us: u64) {
        self.now_us = now_us;
        if !self.ejects {
            return;
        }
        self.ejects = false;
        for instance in self.instances.values_mut() {
            instance.health.advance(now_us);
            self.ejects |= instance.health.is_ejected();
        }
    }

    /// Returns true if one more request would get an instance at once.
    fn starts(&self, now_us: u64) -> bool {
        let waiting = self.waiting.len();
        let mut free = 0_u64;
        self.instances.values().any(|instance| {
            free = free.saturating_add(instance.free(now_us, &self.rules, waiting));
            free > waiting as u64
        })
    }

    /// Returns the reason one more request is refused. `starts` means that it would get an instance at
    /// once.
    fn admit(&self, now_us: u64, wait_us: u64, starts: bool) -> Result<(), Rejection> {
        let waiting = self.waiting.len();
        if waiting >= self.rules.queue && !starts {
            return Err(self.full(now_us));
        }
        if wait_us == u64::MAX && !self.rules.reject_late {
            return Ok(());
        }
        let Some((estimate_wait_us, latency_us)) = self.estimate(now_us) else {
            return Ok(());
        };
        let result_us = estimate_wait_us.saturating_add(latency_us);
        let slo_us = self.rules.slo.us();
        if estimate_wait_us > wait_us {
            return Err(too_late(estimate_wait_us, wait_us));
        }
        if self.rules.reject_late && result_us > slo_us {
            return Err(too_late(result_us, slo_us));
        }
        Ok(())
    }

    /// The refusal of a request by a full queue.
    fn full(&self, now_us: u64) -> Rejection {
        let waiting = self.waiting.len();
        let half_us = self.work_off_us(now_us, waiting as u64 / 2);
        let retry_us = half_us.unwrap_or(RETRY_US);
        Rejection::Full { waiting, retry_us }
    }

    /// Estimated time that a new request waits, and the least time until its result after that, in
    /// microseconds. `None` without an instance that takes requests: no one knows when one will.
    fn estimate(&self, now_us: u64) -> Option<(u64, u64)> {
        let available = || {
            self.instances
                .values()
                .filter(|instance| instance.is_available())
        };
        let latency_us = available()
            .map(|instance| instance.capacity.latency_us)
            .min()?;
        let waiting = self.waiting.len();
        let free = available().map(|instance| instance.free(now_us, &self.rules, waiting));
        let free = free.fold(0, u64::saturating_add);
        let behind = (waiting as u64).saturating_add(1).saturating_sub(free);
        Some((self.work_off_us(now_us, behind)?, latency_us))
    }

    /// Estimated time until `requests` of the queue are dispatched, in microseconds.
    fn work_off_us(&self, now_us: u64, requests: u64) -> Option<u64> {
        let available = self
            .instances
            .values()
            .filter(|instance| instance.is_available());
        let weights = available.map(|instance| instance.weight(now_us, &self.rules));
        let all = weights.fold(0, u64::saturating_add) / u64::from(self.rules.gateways.max(1));
        if all == 0 {
            return None;
        }
        let us = u128::from(requests).saturating_mul(1_000_000_000_000) / u128::from(all);
        Some(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

/// Time that a dispatched request would have taken on an instance as fast as profiled.
fn as_profiled(expected_us: u64, instance: &Instance) -> u64 {
    let us = u128::from(expected_us) * 1_000 / u128::from(instance.slowdown.permille());
    u64::try_from(us).unwrap_or(u64::MAX)
}

fn too_late(estimate_us: u64, allowed_us: u64) -> Rejection {
    Rejection::TooLate {
        estimate_us,
        allowed_us,
        retry_us: estimate_us.saturating_sub(allowed_us),
    }
}
