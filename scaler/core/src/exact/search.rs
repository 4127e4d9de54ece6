//! Best-first search over partial solutions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::candidates::{Item, Problem};
use super::frontier::Frontier;

/// Result of a search.
#[derive(Debug)]
pub(super) struct Incumbent {
    pub(super) base_count: u64,
    /// Indices of the problem's other items, one for each instance.
    pub(super) others: Vec<usize>,
    /// Lower bound of the cost, in the problem's units.
    pub(super) lower_bound: u128,
    pub(super) steps: usize,
}

/// A partial solution in the queue: ascending by cost, then descending by rate, then by age.
type Entry = Reverse<(u128, Reverse<u128>, u32)>;

/// Finds the cheapest way to carry `load`, which is positive.
pub(super) fn search(problem: &Problem, load: u128, max_steps: usize) -> Incumbent {
    let mut search = Search {
        problem,
        load,
        best: Best {
            cost: u128::MAX,
            node: 0,
            base_count: 0,
        },
        nodes: vec![Node { parent: 0, item: 0 }],
        queue: BinaryHeap::from([Reverse((0, Reverse(0), 0))]),
        frontier: Frontier::default(),
    };
    let floor = search.bound(0, 0);
    let mut lower_bound = None;
    while let Some(Reverse((cost, Reverse(rate), node))) = search.queue.pop() {
        if search.best.cost <= floor {
            break;
        }
        if search.nodes.len() > max_steps.max(1) {
            lower_bound = Some(search.open_bound(rate, cost).max(floor));
            break;
        }
        search.visit(rate, cost, node);
    }
    Incumbent {
        base_count: search.best.base_count,
        others: search.path(search.best.node),
        lower_bound: lower_bound.unwrap_or(search.best.cost),
        steps: search.nodes.len(),
    }
}

struct Search<'a> {
    problem: &'a Problem,
    load: u128,
    best: Best,
    nodes: Vec<Node>,
    queue: BinaryHeap<Entry>,
    frontier: Frontier,
}

struct Best {
    cost: u128,
    node: u32,
    base_count: u64,
}

/// Origin of a partial solution; node 0 is the empty one.
struct Node {
    parent: u32,
    item: u32,
}

impl Search<'_> {
    /// Lower bound of the cost of any completion: the rest at the base's cost per request.
    fn bound(&self, rate: u128, cost: u128) -> u128 {
        let base = &self.problem.base;
        // At most 2^64 of load * 2^64 of cost.
        let rest = self.load.saturating_sub(rate).saturating_mul(base.cost);
        cost.saturating_add(rest.div_ceil(base.rate.max(1)))
    }

    /// Returns the least bound of all partial solutions in the queue and of this one.
    fn open_bound(&self, rate: u128, cost: u128) -> u128 {
        let waiting = self.queue.iter();
        let bounds = waiting.map(|Reverse((cost, Reverse(rate), _))| self.bound(*rate, *cost));
        bounds
            .fold(self.bound(rate, cost), u128::min)
            .min(self.best.cost)
    }

    fn visit(&mut self, rate: u128, cost: u128, node: u32) {
        let Some((phase, deficit)) = self.reduced(rate, cost) else {
            return;
        };
        if self.bound(rate, cost) >= self.best.cost || self.frontier.dominates(phase, deficit) {
            return;
        }
        self.frontier.insert(phase, deficit);
        let base = self.problem.base;
        let count = (self.load.saturating_sub(rate)).div_ceil(base.rate.max(1));
        self.offer(
            cost.saturating_add(base.cost.saturating_mul(count)),
            node,
            count,
        );
        for (at, item) in self.problem.others.iter().enumerate() {
            self.extend(rate, cost, node, at, item);
        }
    }

    fn extend(&mut self, rate: u128, cost: u128, parent: u32, at: usize, item: &Item) {
        let (rate, cost) = (
            rate.saturating_add(item.rate),
            cost.saturating_add(item.cost),
        );
        if self.bound(rate, cost) >= self.best.cost {
            return;
        }
        let complete = rate >= self.load;
        if !complete {
            let Some((phase, deficit)) = self.reduced(rate, cost) else {
                return;
            };
            if self.frontier.dominates(phase, deficit) {
                return;
            }
        }
        let (Ok(node), Ok(item)) = (u32::try_from(self.nodes.len()), u32::try_from(at)) else {
            return;
        };
        self.nodes.push(Node { parent, item });
        if complete {
            self.offer(cost, node, 0);
        } else {
            self.queue.push(Reverse((cost, Reverse(rate), node)));
        }
    }

    /// Returns phase and deficit. The phase is the cost modulo the base's cost. The deficit is the
    /// rate by which this solution falls short of one more base item than its cost pays for. Other
    /// items cost no less per request than the base, so it is not negative.
    fn reduced(&self, rate: u128, cost: u128) -> Option<(u128, u128)> {
        let base = self.problem.base;
        let paid = cost.checked_div(base.cost)?;
        let phase = cost.checked_rem(base.cost)?;
        let next = paid.saturating_add(1).saturating_mul(base.rate);
        Some((phase, next.checked_sub(rate)?))
    }

    fn offer(&mut self, cost: u128, node: u32, base_count: u128) {
        if cost < self.best.cost {
            self.best = Best {
                cost,
                node,
                base_count: u64::try_from(base_count).unwrap_or(u64::MAX),
            };
        }
    }

    fn path(&self, mut node: u32) -> Vec<usize> {
        let mut items = Vec::new();
        while node > 0 {
            let Some(Node { parent, item }) = self.nodes.get(node as usize) else {
                break;
            };
            items.push(*item as usize);
            node = *parent;
        }
        items
    }
}
