//! Torpor by the rules of the prototype that its authors publish (FCSLab/torpor): the threshold
//! between functions of high and of low priority (`router.py`), and eviction (`evictor.hpp`).
//!
//! The *effort* of a function is its required request count times the mean latency of its requests.
//! Every two seconds the functions share a budget in ascending order of effort: a part, alpha, of
//! the sum of all positive efforts. Those that it covers have high priority. Every twentieth time alpha
//! doubles, up to 1, if at least 4 % more functions are compliant than at its last change, halves if
//! over 4 % fewer are, and grows by 1 % otherwise. A function executes one request at a time.
//!
//! Replicas and light models are one class for eviction, and all others go after them; within both
//! the least recently used goes first. A replica stays until its memory is needed.
//!
//! **Readings.** Functions of high priority come in descending order of effort, those of low priority
//! in ascending order, the latest request first. The order counts when a GPU becomes
//! idle; the prototype takes its next request out of the queue before, and waits with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tetris_scaler_dispatch::gpu::{
    GlobalQueue, GpuId, GpuPolicy, GpuRequest, ModelId, Pool, Waiting,
};

use crate::torpor::{TorporRules, is_light_model, is_replica, place};

/// Percentile of the SLO.
const PERCENT: i128 = 98;
/// Time between two updates of the priorities, in microseconds.
const UPDATE_US: u64 = 2_000_000;
/// Number of updates between two changes of alpha.
const UPDATES_PER_ALPHA: u64 = 20;
/// Alpha of 1: the budget is the sum of all positive efforts.
const WHOLE: u64 = 1_000_000_000;
/// Inverse of the relative change of compliant functions from which alpha doubles or halves.
const CHANGE_INVERSE: i128 = 25;

/// Torpor as in its authors' prototype.
///
/// It has a memory, unlike the policies of the product: each scheduler needs an instance, and the
/// ends of requests are those that the pool shows by idle GPUs.
#[derive(Debug)]
pub struct TorporPrototype {
    rules: TorporRules,
    memory: Mutex<Memory>,
}

impl TorporPrototype {
    /// Creates the policy with the parts of Torpor that `rules` have. Without an order by required
    /// count, requests come in the order of their arrival, several of a function at a time. No request is refused.
    pub fn new(rules: TorporRules) -> Self {
        Self {
            rules,
            memory: Mutex::default(),
        }
    }
}

impl GpuPolicy for TorporPrototype {
    fn copies_between_gpus(&self) -> bool {
        self.rules.copies_between_gpus()
    }

    fn next(
        &self,
        now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.note_ends(queue, pool);
        memory.update_until(now_us);
        pool.idle().next()?;
        let order = if self.rules.by_required_count {
            memory.order(queue)
        } else {
            (0..queue.iter().count()).collect()
        };
        let (at, gpu) = order.into_iter().find_map(|at| {
            let request = queue.get(at)?.request;
            place(pool, self.rules, &request).map(|gpu| (at, gpu))
        })?;
        let waiting = queue.take(at)?;
        memory.running.insert(gpu, waiting.request);
        Some((waiting, gpu))
    }

    fn victims(&self, _queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId> {
        pool.evictable_by(gpu, |id, used_us| {
            let goes_first = self.rules.evicts_light_first
                && (is_replica(pool, gpu, id) || is_light_model(pool, id, self.rules));
            (!goes_first, used_us)
        })
    }
}

/// Ended requests of a function.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    ended: u64,
    in_time: u64,
    latency_us: u64,
}

impl Tally {
    /// Required request count times mean latency, without the constant `1 / (1 - p)`.
    fn effort(self) -> i128 {
        let short = PERCENT * i128::from(self.ended) - 100 * i128::from(self.in_time);
        i128::from(self.latency_us) * short / i128::from(self.ended.max(1))
    }

    fn is_compliant(self) -> bool {
        i128::from(self.in_time) * 100 >= i128::from(self.ended) * PERCENT
    }
}

/// Facts that the policy gathers.
#[derive(Debug)]
struct Memory {
    tallies: BTreeMap<u32, Tally>,
    /// Request of each GPU.
    running: BTreeMap<GpuId, GpuRequest>,
    low: BTreeSet<u32>,
    alpha: u64,
    updates: u64,
    next_update_us: u64,
    /// Compliant functions, and all, at the last doubling or halving of alpha.
    before: (u64, u64),
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            tallies: BTreeMap::new(),
            running: BTreeMap::new(),
            low: BTreeSet::new(),
            alpha: WHOLE,
            updates: 0,
            next_update_us: UPDATE_US,
            before: (0, 0),
        }
    }
}

impl Memory {
    /// Counts the requests of GPUs that have become idle since their dispatch.
    fn note_ends(&mut self, queue: &GlobalQueue, pool: &Pool) {
        for (gpu, state) in pool.idle() {
            let Some(request) = self.running.remove(&gpu) else {
                continue;
            };
            // The GPU gave it back, or had no room for it after all.
            if queue.iter().any(|waiting| waiting.request.id == request.id) {
                continue;
            }
            let end_us = state.idle_since_us;
            let late = request
                .deadline_us
                .is_some_and(|deadline| end_us > deadline);
            let tally = self.tallies.entry(request.function).or_default();
            tally.ended += 1;
            tally.in_time += u64::from(!late);
            tally.latency_us += end_us.saturating_sub(request.arrived_us);
        }
    }

    /// Places in the queue by priority, without functions that execute a request.
    fn order(&self, queue: &GlobalQueue) -> Vec<usize> {
        let running: BTreeSet<u32> = self
            .running
            .values()
            .map(|request| request.function)
            .collect();
        let mut order: Vec<(bool, i128, i128, usize)> = queue
            .iter()
            .enumerate()
            .filter(|(_, waiting)| !running.contains(&waiting.request.function))
            .map(|(at, waiting)| {
                let function = waiting.request.function;
                let effort = self.effort(function);
                let place = at as i128;
                if self.low.contains(&function) {
                    (true, effort, -place, at)
                } else {
                    (false, -effort, place, at)
                }
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, _, at)| at).collect()
    }

    fn effort(&self, function: u32) -> i128 {
        let tally = self.tallies.get(&function).copied().unwrap_or_default();
        tally.effort()
    }

    fn update_until(&mut self, now_us: u64) {
        while self.next_update_us <= now_us {
            self.next_update_us += UPDATE_US;
            self.updates += 1;
            self.share_budget();
            if self.updates.is_multiple_of(UPDATES_PER_ALPHA) {
                self.change_alpha();
            }
        }
    }

    /// Sorts the functions into those of high and of low priority.
    fn share_budget(&mut self) {
        let mut efforts: Vec<(i128, u32)> = self
            .tallies
            .iter()
            .map(|(&function, tally)| (tally.effort(), function))
            .collect();
        efforts.sort_unstable();
        let positive = efforts.iter().filter(|(effort, _)| *effort > 0);
        let sum: i128 = positive.map(|(effort, _)| effort).sum();
        let budget = sum * i128::from(self.alpha) / i128::from(WHOLE);
        let mut spent = 0;
        self.low = efforts
            .into_iter()
            .filter(|&(effort, _)| {
                spent += effort.max(0);
                spent > budget
            })
            .map(|(_, function)| function)
            .collect();
    }

    /// Changes alpha by the number of compliant functions.
    fn change_alpha(&mut self) {
        let all = self.tallies.len() as u64;
        if all == 0 {
            return;
        }
        let compliant = self.tallies.values().filter(|tally| tally.is_compliant());
        let now = (compliant.count() as u64, all);
        let [after, before] = [now, self.before].map(|(part, of)| [part, of].map(i128::from));
        let ([after, after_of], [before, before_of]) = (after, before);
        // (after / after_of - before / before_of) / (before / before_of) beside 1 / CHANGE_INVERSE
        let rise = CHANGE_INVERSE * (after * before_of - before * after_of);
        let unit = before * after_of;
        if before == 0 || rise >= unit {
            self.alpha = self.alpha.saturating_mul(2).min(WHOLE);
            self.before = now;
        } else if rise < -unit {
            // Halved in integers it would reach 0, which never grows again.
            self.alpha = (self.alpha / 2).max(100);
            self.before = now;
        } else {
            self.alpha = (self.alpha + self.alpha / 100).min(WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(ended: u64, in_time: u64, mean_us: u64) -> Tally {
        Tally {
            ended,
            in_time,
            latency_us: ended * mean_us,
        }
    }

    fn memory(tallies: impl IntoIterator<Item = Tally>) -> Memory {
        Memory {
            tallies: (0..).zip(tallies).collect(),
            ..Memory::default()
        }
    }

    #[test]
    fn effort_is_the_required_count_times_the_mean_latency() {
        // (0.98 * 100 - 90) / 0.02 requests of 10 ms; the constant 50 and a percent are left out.
        assert_eq!(tally(100, 90, 10_000).effort(), 400 * 10_000 * 2);
        assert_eq!(tally(100, 90, 20_000).effort(), 400 * 20_000 * 2);
        assert!(tally(100, 99, 10_000).effort() < 0);
        assert_eq!(Tally::default().effort(), 0);
    }

    #[test]
    fn the_budget_covers_functions_in_ascending_order_of_effort() {
        // Efforts in the relation of -2, 1, 3 and 6, the last by its latency.
        let of = |alpha| {
            let mut memory = memory([
                tally(100, 95, 60_000),
                tally(100, 95, 10_000),
                tally(100, 100, 30_000),
                tally(100, 95, 30_000),
            ]);
            memory.alpha = alpha;
            memory.share_budget();
            Vec::from_iter(memory.low)
        };
        assert!(of(WHOLE).is_empty());
        assert_eq!(of(WHOLE - 1), [0]);
        assert_eq!(of(WHOLE * 4 / 10), [0]);
        assert_eq!(of(WHOLE * 39 / 100), [0, 3]);
        assert_eq!(of(WHOLE / 20), [0, 1, 3]);
    }

    #[test]
    fn alpha_follows_the_number_of_compliant_functions() {
        let mut memory = memory([]);
        let mut alpha_with = |compliant: usize| {
            let tallies =
                (0..100).map(|number| tally(100, if number < compliant { 99 } else { 9 }, 1));
            memory.tallies = (0..).zip(tallies).collect();
            memory.change_alpha();
            memory.alpha
        };
        assert_eq!(alpha_with(100), WHOLE);
        // 4 % fewer are no change, 5 % fewer are one.
        assert_eq!(alpha_with(96), WHOLE);
        assert_eq!(alpha_with(95), WHOLE / 2);
        assert_eq!(alpha_with(90), WHOLE / 4);
        assert_eq!(alpha_with(90), WHOLE / 400 * 101);
        assert_eq!(
            alpha_with(93),
            (WHOLE / 400 * 101) + (WHOLE / 400 * 101) / 100
        );
        assert_eq!(
            alpha_with(94),
            2 * ((WHOLE / 400 * 101) + (WHOLE / 400 * 101) / 100)
        );
        for _ in 0..100 {
            alpha_with(100);
        }
        assert_eq!(alpha_with(100), WHOLE);
    }

    #[test]
    fn priorities_change_every_two_seconds_and_alpha_every_forty() {
        let mut memory = memory([tally(100, 95, 10), tally(100, 50, 10)]);
        memory.alpha = WHOLE / 2;
        memory.update_until(UPDATE_US - 1);
        assert!(memory.low.is_empty());
        memory.update_until(UPDATE_US);
        assert_eq!(Vec::from_iter(memory.low.clone()), [1]);
        memory.update_until(UPDATE_US * UPDATES_PER_ALPHA - 1);
        assert_eq!(memory.alpha, WHOLE / 2);
        memory.update_until(UPDATE_US * UPDATES_PER_ALPHA);
        assert_eq!(memory.alpha, WHOLE);
    }
}
