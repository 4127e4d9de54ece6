//! An instance as the dispatcher sees it.

use std::cmp::Ordering;

use crate::capacity::Capacity;
use crate::health::Health;
use crate::latency::Slowdown;
use crate::rules::Rules;

/// Share of a new instance in the first moment, in thousandths of its full one.
const FIRST_SHARE: u64 = 100;
const FULL_SHARE: u64 = 1_000;

/// A batch as the dispatcher reckons that the instance makes it. Its number is that of its first
/// dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    number: u64,
    /// Number of its requests without an outcome.
    requests: u32,
    /// Time at which it starts, full or not, if a thread is free.
    starts_us: u64,
    /// True if one of its requests was answered.
    answered: bool,
}

/// State of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// Number of its addition, unlike those of earlier instances with the same number.
    pub(crate) birth: u64,
    pub(crate) capacity: Capacity,
    pub(crate) outstanding: u64,
    pub(crate) draining: bool,
    pub(crate) health: Health,
    pub(crate) slowdown: Slowdown,
    /// Number of the last dispatch to it: between equal instances, the one that got none for the
    /// longest time is next.
    pub(crate) given: u64,
    since_us: u64,
    /// Batches with requests, by age; none without batching.
    batches: Vec<Batch>,
}

impl Instance {
    pub(crate) fn new(now_us: u64, birth: u64, capacity: Capacity) -> Self {
        Self {
            birth,
            capacity,
            outstanding: 0,
            draining: false,
            health: Health::default(),
            slowdown: Slowdown::NONE,
            given: 0,
            since_us: now_us,
            batches: Vec::new(),
        }
    }

    /// Gives it requests again after a time without, slowly at first.
    pub(crate) fn returns(&mut self, now_us: u64) {
        self.draining = false;
        self.since_us = now_us;
    }

    /// Returns true if it takes requests, now or once it has room.
    pub(crate) fn is_available(&self) -> bool {
        !self.draining && !self.health.is_ejected()
    }

    /// Largest number of requests that it gets from this gateway.
    pub(crate) fn room(&self, rules: &Rules) -> u64 {
        if !self.is_available() {
            return 0;
        }
        if self.health.is_on_probation() {
            return 1;
        }
        self.capacity
            .room()
            .div_ceil(u64::from(rules.gateways.max(1)))
    }

    /// Number of requests that it gets now, while `waiting` requests wait.
    pub(crate) fn free(&self, now_us: u64, rules: &Rules, waiting: usize) -> u64 {
        let free = self.room(rules).saturating_sub(self.outstanding);
        if self.holds(now_us, free, waiting) {
            0
        } else {
            free
        }
    }

    /// Number of requests that it may have now, while `waiting` requests wait.
    pub(crate) fn room_now(&self, now_us: u64, rules: &Rules, waiting: usize) -> u64 {
        let free = self.free(now_us, rules, waiting);
        self.room(rules).min(self.outstanding.saturating_add(free))
    }

    /// Returns true if requests had better wait until a thread is free. Where its threads are busy,
    /// `free` requests ahead would make a batch that is not full, and the instance would start it as
    /// soon as it can. Such batches leave no room for full ones, again and again. Where a whole batch
    /// waits, it starts full once a thread is free; where less waits, the time that it waits for
    /// others should begin at once.
    fn holds(&self, now_us: u64, free: u64, waiting: usize) -> bool {
        let batch = u64::from(self.capacity.batch);
        if batch <= 1 || free == 0 || (waiting as u64) < batch {
            return false;
        }
        let open = self.open_batch(now_us);
        let closed = self
            .batches
            .len()
            .saturating_sub(usize::from(open.is_some()));
        let ahead = open.map_or(0, |entry| u64::from(entry.requests));
        closed as u64 >= u64::from(self.capacity.concurrency) && ahead.saturating_add(free) < batch
    }

    /// Requests per second in millionths that it is worth now: its rate, less if it is slow or new.
    pub(crate) fn weight(&self, now_us: u64, rules: &Rules) -> u64 {
        let micro_rps = self.capacity.micro_rps();
        let (slowdown, share) = (self.slowdown.permille(), self.share(now_us, rules));
        if (slowdown, share) == (FULL_SHARE, FULL_SHARE) {
            return micro_rps;
        }
        let rate = u128::from(micro_rps) * u128::from(FULL_SHARE);
        let weighed = rate / u128::from(slowdown) * u128::from(share);
        u64::try_from(weighed / u128::from(FULL_SHARE))
            .unwrap_or(u64::MAX)
            .max(1)
    }

    fn share(&self, now_us: u64, rules: &Rules) -> u64 {
        let age_us = now_us.saturating_sub(self.since_us);
        if age_us >= rules.slow_start_us {
            return FULL_SHARE;
        }
        let gained = u128::from(FULL_SHARE - FIRST_SHARE) * u128::from(age_us)
            / u128::from(rules.slow_start_us.max(1));
        FIRST_SHARE.saturating_add(gained as u64)
    }

    /// Compares the load of two instances: the time to work off their requests and one more.
    pub(crate) fn compare_load(&self, other: &Self, now_us: u64, rules: &Rules) -> Ordering {
        let requests = |one: &Self| u128::from(one.outstanding).saturating_add(1);
        let weight = |one: &Self| u128::from(one.weight(now_us, rules));
        let (own, its) = (requests(self), requests(other));
        let (own, its) = (
            own.saturating_mul(weight(other)),
            its.saturating_mul(weight(self)),
        );
        own.cmp(&its)
    }

    /// Returns true if a batch waits for requests, and another one fits.
    pub(crate) fn has_open_batch(&self, now_us: u64) -> bool {
        self.open_batch(now_us).is_some()
    }

    /// The newest batch, if it is not full and has not started. It stays open while no thread is free
    /// for it.
    fn open_batch(&self, now_us: u64) -> Option<&Batch> {
        let (newest, others) = self.batches.split_last()?;
        let waits = now_us < newest.starts_us
            || others.len() as u64 >= u64::from(self.capacity.concurrency);
        let open = waits && !newest.answered && newest.requests < self.capacity.batch;
        open.then_some(newest)
    }

    /// Latency of one batch as lately observed, in microseconds.
    pub(crate) fn latency_us(&self) -> u64 {
        let latency_us = self.capacity.latency_us;
        match self.slowdown.permille() {
            FULL_SHARE => latency_us,
            permille => latency_us.saturating_mul(permille) / FULL_SHARE,
        }
    }

    /// Estimated time from the start of a batch with one more request until its result, in microseconds: the wait for
    /// a thread, and the latency as lately observed.
    pub(crate) fn service_us(&self) -> u64 {
        let turns = self.outstanding / self.capacity.slots().max(1);
        self.latency_us().saturating_mul(turns.saturating_add(1))
    }

    /// Estimated time from now until the result of one more request, in microseconds: the wait for its batch to fill,
    /// and the time in service.
    pub(crate) fn estimate_us(&self, now_us: u64) -> u64 {
        let batch_us = match self.open_batch(now_us) {
            Some(batch) if batch.requests.saturating_add(1) >= self.capacity.batch => 0,
            Some(batch) => batch.starts_us.saturating_sub(now_us),
            None => self.capacity.batch_wait_us,
        };
        self.service_us().saturating_add(batch_us)
    }

    /// Takes a request. Returns the number of its batch.
    pub(crate) fn take(&mut self, now_us: u64, given: u64) -> u64 {
        self.outstanding = self.outstanding.saturating_add(1);
        self.given = given;
        if self.capacity.batch <= 1 {
            return given;
        }
        if self.has_open_batch(now_us)
            && let Some(newest) = self.batches.last_mut()
        {
            newest.requests = newest.requests.saturating_add(1);
            if newest.requests >= self.capacity.batch {
                newest.starts_us = newest.starts_us.min(now_us);
            }
            return newest.number;
        }
        self.batches.push(Batch {
            number: given,
            requests: 1,
            starts_us: now_us.saturating_add(self.capacity.batch_wait_us),
            answered: false,
        });
        given
    }

    /// Loses a request of a batch: it is done, or left. Returns the time at which the batch started, if a thread was
    /// free; `None` without batches.
    pub(crate) fn release(&mut self, batch: u64, answered: bool) -> Option<u64> {
        self.outstanding = self.outstanding.saturating_sub(1);
        let of = self
            .batches
            .iter_mut()
            .find(|entry| entry.number == batch)?;
        of.requests = of.requests.saturating_sub(1);
        of.answered |= answered;
        let starts_us = of.starts_us;
        self.batches.retain(|batch| batch.requests > 0);
        Some(starts_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_scaler_core::Slo;

    fn rules() -> Rules {
        Rules {
            slow_start_us: 0,
            ..Rules::new(Slo::try_from_us(1_000_000).unwrap())
        }
    }

    fn instance(batch: u32, concurrency: u32) -> Instance {
        let batch_wait_us = if batch > 1 { 20_000 } else { 0 };
        Instance::new(
            0,
            1,
            Capacity {
                batch,
                concurrency,
                latency_us: 50_000,
                batch_wait_us,
                rate: None,
            },
        )
    }

    #[test]
    fn a_batch_is_open_until_it_is_full_or_starts() {
        let mut batched = instance(3, 1);
        assert!(!batched.has_open_batch(0));
        assert_eq!(
            batched.estimate_us(0),
            70_000,
            "a batch alone waits for others"
        );
        batched.take(0, 1);
        assert!(batched.has_open_batch(19_999) && !batched.has_open_batch(20_000));
        assert_eq!(batched.estimate_us(15_000), 55_000);
        batched.take(15_000, 2);
        assert_eq!(
            batched.estimate_us(15_000),
            50_000,
            "the third request starts the batch"
        );
        batched.take(16_000, 3);
        assert!(!batched.has_open_batch(16_000));
    }

    #[test]
    fn a_batch_without_a_free_thread_stays_open() {
        let mut threaded = instance(2, 1);
        threaded.take(0, 1);
        threaded.take(0, 2);
        threaded.take(0, 3);
        assert!(
            threaded.has_open_batch(40_000),
            "the first batch still runs"
        );
    }

    #[test]
    fn a_new_instance_is_worth_a_tenth_at_first_and_a_slow_one_less() {
        let slow = Rules {
            slow_start_us: 1_000,
            ..rules()
        };
        let mut fresh = instance(1, 1);
        assert_eq!(fresh.weight(0, &slow), 2_000_000);
        assert_eq!(fresh.weight(500, &slow), 11_000_000);
        assert_eq!(fresh.weight(1_000, &slow), 20_000_000);
        for _ in 0..50 {
            fresh.slowdown.observe(100_000, 50_000);
        }
        assert!((10_000_000..10_300_000).contains(&fresh.weight(1_000, &slow)));
    }

    #[test]
    fn gateways_share_the_room_and_each_has_some() {
        let two = Rules {
            gateways: 2,
            ..rules()
        };
        assert_eq!(instance(1, 4).room(&two), 2);
        assert_eq!(instance(1, 1).room(&two), 1);
    }
}
