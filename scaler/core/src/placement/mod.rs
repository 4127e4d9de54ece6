//! Configurations and nodes for several models at once.

mod atoms;
mod baseline;
mod bound;
mod construct;
mod explain;
mod ground;
mod improve;
mod input;
mod layout;
mod outcome;
mod room;
mod shortage;

pub use input::{
    DEFAULT_TRIALS, Demand, Hosted, MAX_INSTANCES, MAX_MODELS, Node, Placed, PlacementProblem,
};
pub use outcome::{Placement, PlacementError};
pub use shortage::Shortage;

use construct::Method;
use ground::{Ground, Slot};
use layout::Layout;

/// Places instances of all models so that each load is carried within its objective and no node gives more
/// than it has, at little cost: `memory + alpha cpu + start cost`.
///
/// The memory of an instance is its own part; a node's memory for tensors is what it has not yet of the
/// union of its models' tensors, once. So a second instance on a node is cheaper than a first one
/// elsewhere, and so is a variant where its base is.
///
/// **How.** Starting points: the instances that run, completed; each model filled up by cost per request,
/// by the exact solution for own memory, or where least of the scarcest resource goes; and the published
/// way ([`place_as_published`]). When a model finds no room, it goes first in the next attempt. The best
/// starting points are improved by taking parts away (an instance, a model on a node, a model, a node, two
/// models that share tensors) and filling up anew, until
/// nothing helps or the bound below is met. The cost is never higher
/// than that of the published way. The result is not always the best: the problem contains bin packing.
///
/// **Lower bound.** Whatever the placement, each model pays at least the optimum of its integer program
/// with own memory for m (see [`solve`](crate::solve)). Take tensors that exactly the same models have:
/// the nodes that hold them run all of these models' instances, so together they have the CPU and own memory
/// that the loads take at the best ratio of any configuration. That takes a number of nodes, at least the one
/// with which the largest have enough, and brings the tensors to so many nodes, for no less than what those
/// lack that lack least. The bound is the sum of both; it leaves out starts, and that instances and nodes
/// cannot be divided.
///
/// All is deterministic. Costs about `max_trials` times nodes times configurations.
pub fn place(problem: &PlacementProblem<'_>) -> Result<Placement, PlacementError> {
    let ground = Ground::new(problem)?;
    explain::check_sizes(&ground)?;
    let mut starts: Vec<Layout<'_>> = Vec::new();
    let mut failed = None;
    for keep in [true, false] {
        for method in Method::ALL {
            match construct_all(&ground, keep, method) {
                Ok(layout) => starts.push(layout),
                Err(layout) => failed = Some(failed.unwrap_or(layout)),
            }
        }
    }
    starts.extend(baseline::published(&ground));
    // Which is best after improvement cannot be told before; the first few are tried.
    starts.sort_by_key(Layout::cost);
    starts.dedup_by(|a, b| a.counts() == b.counts());
    starts.truncate(STARTS);
    let bound = bound::lower_bound(&ground);
    let share = problem.max_trials / starts.len().max(1);
    for layout in &mut starts {
        improve::improve(layout, share, bound);
        if layout.cost() <= bound {
            break;
        }
    }
    match starts.into_iter().min_by_key(Layout::cost) {
        Some(best) => Ok(best.outcome(bound)),
        None => Err(explain::out_of_room(&ground, failed.as_deref())),
    }
}

/// Starting points that are improved.
const STARTS: usize = 3;

/// As published, for comparison: DTS for each model by itself, then the node with the largest theta that has
/// room, instance by instance (Tetris 3.2).
pub fn place_as_published(problem: &PlacementProblem<'_>) -> Result<Placement, PlacementError> {
    let ground = Ground::new(problem)?;
    explain::check_sizes(&ground)?;
    match baseline::published(&ground) {
        Ok(layout) => Ok(layout.outcome(bound::lower_bound(&ground))),
        Err(layout) => Err(explain::out_of_room(&ground, Some(&layout))),
    }
}

/// All models, from nothing or from what runs. A model that finds no room goes first in the next attempt.
fn construct_all<'a>(
    ground: &'a Ground<'a>,
    keep: bool,
    method: Method,
) -> Result<Layout<'a>, Box<Layout<'a>>> {
    let mut order: Vec<usize> = (0..ground.choices.len()).collect();
    // The largest first: small ones find gaps.
    order.sort_by_key(|&model| {
        let solution = ground.cheapest.get(model);
        std::cmp::Reverse(solution.map_or(0, |solution| solution.selection.cost))
    });
    let mut best: Option<Layout<'a>> = None;
    for _ in 0..=order.len().min(MOST_ATTEMPTS) {
        let mut layout = Layout::new(ground);
        if keep {
            layout.keep_running();
        }
        let failed = order.iter().position(|&model| !layout.fill(model, method));
        let Some(failed) = failed else {
            return Ok(layout);
        };
        best.get_or_insert(layout);
        if let Some(first) = order.get_mut(..=failed) {
            first.rotate_right(1);
        }
    }
    Err(Box::new(best.unwrap_or_else(|| Layout::new(ground))))
}

const MOST_ATTEMPTS: usize = 16;

impl Layout<'_> {
    /// Adds what runs and is needed, as far as it fits.
    fn keep_running(&mut self) {
        for (&slot, &count) in &self.ground().current {
            for _ in 0..count {
                let enough = self.uncovered(slot.model) == 0 || self.instances() >= MAX_INSTANCES;
                if enough || !self.add(slot) {
                    break;
                }
            }
        }
    }

    fn outcome(&self, bound: u128) -> Placement {
        let ground = self.ground();
        let mut sum = Placement {
            placed: Vec::new(),
            rates: Vec::new(),
            memory_bytes: self.cost(),
            cpu_millis: 0,
            started: 0,
            stopped: ground
                .problem
                .current
                .iter()
                .map(|placed| u64::from(placed.count))
                .sum(),
            cost: self.cost(),
            lower_bound: bound,
        };
        for (&slot, &count) in self.counts() {
            self.sum_up(&mut sum, slot, count);
        }
        let starts = u128::from(ground.problem.start_cost_bytes) * u128::from(sum.started);
        sum.memory_bytes = sum.memory_bytes.saturating_sub(starts);
        let models = 0..ground.choices.len();
        let rate = |model| u64::try_from(self.rate(model)).unwrap_or(u64::MAX);
        sum.rates = models
            .map(|model| crate::rate::Rate::from_micro_rps(rate(model)))
            .collect();
        sum
    }

    fn sum_up(&self, sum: &mut Placement, slot: Slot, count: u32) {
        let Some(choice) = self.ground().choice(slot) else {
            return;
        };
        let running = self.ground().current.get(&slot).copied().unwrap_or(0);
        sum.placed.push(Placed {
            model: slot.model,
            node: slot.node,
            configuration: choice.configuration,
            count,
        });
        let cpu = u128::from(choice.needs.cpu_millis) * u128::from(count);
        sum.cpu_millis += cpu;
        let alpha = self
            .ground()
            .weights(slot.model)
            .alpha_bytes_per_millicore();
        sum.memory_bytes = sum.memory_bytes.saturating_sub(u128::from(alpha) * cpu);
        sum.started = sum
            .started
            .saturating_add(count.saturating_sub(running).into());
        sum.stopped = sum.stopped.saturating_sub(count.min(running).into());
    }
}
