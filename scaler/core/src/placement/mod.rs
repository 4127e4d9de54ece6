//! Placement: configurations and nodes for several models together.

mod atoms;
mod baseline;
mod bound;
mod construct;
mod device;
mod explain;
mod improve;
mod input;
mod instance;
mod layout;
mod outcome;
mod room;
mod shortage;

pub use input::{
    DEFAULT_TRIALS, Demand, Hosted, MAX_INSTANCES, MAX_MODELS, Node, Placed, PlacementProblem,
};
pub use outcome::{Placement, PlacementError};
pub use shortage::Shortage;

use crate::numbered::Numbered as _;
use construct::Method;
use instance::{ProblemInstance, Slot};
use layout::Layout;

/// Places instances of all models. Each load is carried within its objective, no node gives more
/// than its free resources, and the cost `memory + alpha cpu + start cost` is low.
///
/// The memory of an instance is its private part, on the node and on its GPU. The tensor memory of a node is the missing part
/// of the union of its models' tensors, counted once. So a second instance on a node is cheaper
/// than a first one elsewhere, and so is a variant next to its base. The same holds for a GPU: it has
/// room for the union of its models' tensors, and a tensor costs its bytes where it is not in device
/// memory. No GPU gets more private memory, tensors or time than it has.
///
/// **Algorithm.** There are several starting points: the running instances, completed; each model
/// filled up by cost per request, by the exact solution for private memory, or by the least use of
/// the scarcest resource; and the published algorithm ([`place_as_published`]). A model without
/// room goes first in the next attempt. The best starting points are improved by ruin and recreate:
/// remove an instance, a model on a node, a model, a node, or two models that share tensors, and
/// refill. That ends when nothing helps or the bound below is met. The cost is never higher than
/// that of the published algorithm. The result is not always optimal: the problem contains bin
/// packing.
///
/// **Lower bound.** In any placement, each model pays at least the optimum of its integer program
/// with private memory for m (see [`solve`](crate::solve)). Consider tensors that exactly the same
/// models have. The nodes that hold them run all instances of these models. So together these nodes
/// have at least the CPU and private memory that the loads take at the best ratio of any
/// configuration. This requires at least the number of nodes with which the largest nodes suffice.
/// It brings the tensors to that number of nodes, at no less than the cost on the nodes that lack
/// the fewest bytes. The bound is the sum of both; it ignores copies to GPUs, starts and the indivisibility of
/// instances and nodes.
///
/// The result is deterministic. The running time is about proportional to `max_trials` times nodes
/// times configurations.
///
/// # Errors
///
/// Fails if the input is invalid, no configuration meets an objective, or there is no room.
pub fn place(problem: &PlacementProblem<'_>) -> Result<Placement, PlacementError> {
    let instance = ProblemInstance::new(problem)?;
    explain::check_sizes(&instance)?;
    let mut starts: Vec<Layout<'_>> = Vec::new();
    let mut failed = None;
    for keep in [true, false] {
        for method in Method::ALL {
            match construct_all(&instance, keep, method) {
                Ok(layout) => starts.push(layout),
                Err(layout) => failed = Some(failed.unwrap_or(layout)),
            }
        }
    }
    starts.extend(baseline::published(&instance));
    // The best start after improvement cannot be predicted, so the first few are improved.
    starts.sort_by_key(Layout::cost);
    starts.dedup_by(|a, b| a.counts() == b.counts());
    starts.truncate(STARTS);
    let bound = bound::lower_bound(&instance);
    let share = problem.max_trials / starts.len().max(1);
    for layout in &mut starts {
        improve::improve(layout, share, bound);
        if layout.cost() <= bound {
            break;
        }
    }
    match starts.into_iter().min_by_key(Layout::cost) {
        Some(best) => Ok(best.outcome(bound)),
        None => Err(explain::out_of_room(&instance, failed.as_deref())),
    }
}

/// Number of starting points that are improved.
const STARTS: usize = 3;

/// Places instances by the published algorithm, for comparison: DTS for each model alone, then the
/// node with room and the largest theta, instance by instance (Tetris 3.2).
///
/// # Errors
///
/// As for [`place`].
pub fn place_as_published(problem: &PlacementProblem<'_>) -> Result<Placement, PlacementError> {
    let instance = ProblemInstance::new(problem)?;
    explain::check_sizes(&instance)?;
    match baseline::published(&instance) {
        Ok(layout) => Ok(layout.outcome(bound::lower_bound(&instance))),
        Err(layout) => Err(explain::out_of_room(&instance, Some(&layout))),
    }
}

/// Constructs all models, from an empty layout or from the running instances. A model without room
/// goes first in the next attempt.
fn construct_all<'a>(
    instance: &'a ProblemInstance<'a>,
    keep: bool,
    method: Method,
) -> Result<Layout<'a>, Box<Layout<'a>>> {
    let mut order: Vec<usize> = (0..instance.choices.len()).collect();
    // Large models go first, as small ones fit into gaps.
    order.sort_by_key(|&model| std::cmp::Reverse(instance.cheapest.at(model).selection.cost));
    let mut best: Option<Layout<'a>> = None;
    for _ in 0..=order.len().min(MOST_ATTEMPTS) {
        let mut layout = Layout::new(instance);
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
    Err(Box::new(best.unwrap_or_else(|| Layout::new(instance))))
}

const MOST_ATTEMPTS: usize = 16;

impl Layout<'_> {
    /// Adds running instances that are needed and fit.
    fn keep_running(&mut self) {
        for (&slot, &count) in &self.instance().current {
            for _ in 0..count {
                let enough = self.uncovered(slot.model) == 0 || self.instances() >= MAX_INSTANCES;
                if enough || !self.add(slot) {
                    break;
                }
            }
        }
    }

    fn outcome(&self, bound: u128) -> Placement {
        let instance = self.instance();
        let mut sum = Placement {
            placed: Vec::new(),
            rates: Vec::new(),
            memory_bytes: self.cost(),
            cpu_millis: 0,
            started: 0,
            stopped: instance
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
        let starts = u128::from(instance.problem.start_cost_bytes) * u128::from(sum.started);
        sum.memory_bytes = sum.memory_bytes.saturating_sub(starts);
        let models = 0..instance.choices.len();
        let rate = |model| u64::try_from(self.rate(model)).unwrap_or(u64::MAX);
        sum.rates = models
            .map(|model| crate::rate::Rate::from_micro_rps(rate(model)))
            .collect();
        sum
    }

    fn sum_up(&self, sum: &mut Placement, slot: Slot, count: u32) {
        let choice = self.instance().choice(slot);
        let running = self.instance().current.get(&slot).copied().unwrap_or(0);
        sum.placed.push(Placed {
            model: slot.model,
            node: slot.node,
            configuration: choice.configuration,
            gpu: choice.gpu.map(|gpu| gpu.at),
            count,
        });
        let cpu = u128::from(choice.needs.cpu_millis) * u128::from(count);
        sum.cpu_millis += cpu;
        let alpha = self
            .instance()
            .weights(slot.model)
            .alpha_bytes_per_millicore();
        sum.memory_bytes = sum.memory_bytes.saturating_sub(u128::from(alpha) * cpu);
        sum.started = sum
            .started
            .saturating_add(count.saturating_sub(running).into());
        sum.stopped = sum.stopped.saturating_sub(count.min(running).into());
    }
}
