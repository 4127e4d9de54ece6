//! An instance as the dispatcher sees it.

use crate::capacity::Capacity;
use crate::health::Health;
use crate::latency::Slowdown;
use crate::rules::Rules;

/// Share of a new instance in the first moment, in thousandths of its full one.
const FIRST_SHARE: u64 = 100;
const FULL_SHARE: u64 = 1_000;

/// A batch that waits to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenBatch {
    requests: u32,
    /// Time at which it starts, full or not, if a thread is free.
    starts_us: u64,
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
    batch: Option<OpenBatch>,
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
            batch: None,
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

    pub(crate) fn has_room(&self, rules: &Rules) -> bool {
        self.outstanding < self.room(rules)
    }

    /// Requests per second in millionths that it is worth now: its rate, less if it is slow or new.
    pub(crate) fn weight(&self, now_us: u64, rules: &Rules) -> u64 {
        let rate = u128::from(self.capacity.micro_rps()) * u128::from(FULL_SHARE);
        let weighed =
            rate / u128::from(self.slowdown.permille()) * u128::from(self.share(now_us, rules));
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

    /// Its requests and one more, for its weight: time to work them off, in microseconds.
    pub(crate) fn load_us(&self, now_us: u64, rules: &Rules) -> u64 {
        let requests = u128::from(self.outstanding).saturating_add(1);
        let load =
            requests.saturating_mul(1_000_000_000_000) / u128::from(self.weight(now_us, rules));
        u64::try_from(load).unwrap_or(u64::MAX)
    }

    /// Returns true if a batch waits for requests, and another one fits.
    pub(crate) fn has_open_batch(&self, now_us: u64) -> bool {
        self.batch.is_some_and(|batch| {
            batch.requests < self.capacity.batch && self.still_open(batch, now_us)
        })
    }

    /// A batch stays open while no thread is free for it.
    fn still_open(&self, batch: OpenBatch, now_us: u64) -> bool {
        now_us < batch.starts_us
            || self.outstanding.saturating_sub(u64::from(batch.requests)) >= self.capacity.slots()
    }

    /// Estimated time from now until the result of one more request, in microseconds: the wait for a
    /// thread and for the batch, and the latency as lately observed.
    pub(crate) fn estimate_us(&self, now_us: u64) -> u64 {
        let latency = u128::from(self.capacity.latency_us) * u128::from(self.slowdown.permille())
            / u128::from(FULL_SHARE);
        let latency_us = u64::try_from(latency).unwrap_or(u64::MAX);
        let turns = self.outstanding / self.capacity.slots().max(1);
        let batch_us = match self.batch.filter(|&batch| self.still_open(batch, now_us)) {
            Some(batch) if batch.requests.saturating_add(1) >= self.capacity.batch => 0,
            Some(batch) => batch.starts_us.saturating_sub(now_us),
            None => self.capacity.batch_wait_us,
        };
        latency_us
            .saturating_mul(turns.saturating_add(1))
            .saturating_add(batch_us)
    }

    /// Takes a request.
    pub(crate) fn take(&mut self, now_us: u64, given: u64) {
        if self.capacity.batch > 1 {
            let open = self.batch.filter(|&batch| {
                batch.requests < self.capacity.batch && self.still_open(batch, now_us)
            });
            let mut batch = open.unwrap_or(OpenBatch {
                requests: 0,
                starts_us: now_us.saturating_add(self.capacity.batch_wait_us),
            });
            batch.requests = batch.requests.saturating_add(1);
            self.batch = Some(batch);
        }
        self.outstanding = self.outstanding.saturating_add(1);
        self.given = given;
    }

    /// Loses a request: it is done, or left.
    pub(crate) fn release(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.outstanding == 0 {
            self.batch = None;
        }
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
        let mut one = instance(3, 1);
        assert!(!one.has_open_batch(0));
        assert_eq!(one.estimate_us(0), 70_000, "a batch alone waits for others");
        one.take(0, 1);
        assert!(one.has_open_batch(19_999) && !one.has_open_batch(20_000));
        assert_eq!(one.estimate_us(15_000), 55_000);
        one.take(15_000, 2);
        assert_eq!(
            one.estimate_us(15_000),
            50_000,
            "the third request starts the batch"
        );
        one.take(16_000, 3);
        assert!(!one.has_open_batch(16_000));
    }

    #[test]
    fn a_batch_without_a_free_thread_stays_open() {
        let mut one = instance(2, 1);
        one.take(0, 1);
        one.take(0, 2);
        one.take(0, 3);
        assert!(one.has_open_batch(40_000), "the first batch still runs");
    }

    #[test]
    fn a_new_instance_is_worth_a_tenth_at_first_and_a_slow_one_less() {
        let slow = Rules {
            slow_start_us: 1_000,
            ..rules()
        };
        let mut one = instance(1, 1);
        assert_eq!(one.weight(0, &slow), 2_000_000);
        assert_eq!(one.weight(500, &slow), 11_000_000);
        assert_eq!(one.weight(1_000, &slow), 20_000_000);
        for _ in 0..50 {
            one.slowdown.observe(100_000, 50_000);
        }
        assert!((10_000_000..10_300_000).contains(&one.weight(1_000, &slow)));
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
