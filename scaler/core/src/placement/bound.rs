//! Lower bound of the cost of any placement.

use super::atoms::Atom;
use super::instance::{Choice, ProblemInstance};
use super::room::Room as Free;
use crate::numbered::Numbered as _;
use crate::score::Resources;

/// Sum of the optima for private memory, and each needed tensor on as many nodes as its models
/// take.
pub(super) fn lower_bound(instance: &ProblemInstance<'_>) -> u128 {
    let of_solutions = instance
        .cheapest
        .iter()
        .map(|solution| solution.lower_bound);
    let cpu = Room::new(instance, |free| free.cpu_millis, |needs| needs.cpu_millis);
    let memory = Room::new(
        instance,
        |free| free.memory_bytes,
        |needs| needs.memory_bytes,
    );
    let tensors = instance.atoms.iter().filter_map(|atom| {
        let nodes = cpu.nodes_needed(atom).max(memory.nodes_needed(atom));
        let mut missing = atom.missing.clone();
        missing.sort_unstable();
        let least = missing.into_iter().take(nodes).map(u128::from);
        (nodes > 0).then(|| least.fold(0, u128::saturating_add))
    });
    of_solutions.chain(tensors).fold(0, u128::saturating_add)
}

/// One resource: free amounts of nodes, and requirements of models.
struct Room {
    /// Free amounts of the nodes, ascending.
    free: Vec<u64>,
    /// Required amounts by model.
    taken: Vec<u128>,
}

impl Room {
    fn new(
        instance: &ProblemInstance<'_>,
        of_node: fn(&Free) -> u64,
        of_instance: fn(&Resources) -> u64,
    ) -> Self {
        let mut free: Vec<u64> = instance.free.iter().map(of_node).collect();
        free.sort_unstable();
        let models = 0..instance.choices.len();
        let taken = models
            .map(|model| least(instance, model, of_instance))
            .collect();
        Self { free, taken }
    }

    /// Returns the least number of nodes for the atom's models: the number of largest nodes with
    /// enough free for all of them. It is 0 without load.
    fn nodes_needed(&self, atom: &Atom) -> usize {
        let taken = atom.models.iter().map(|&model| self.taken.at(model));
        let mut rest = taken.fold(0, |sum: u128, &taken| sum.saturating_add(taken));
        let largest_first = self.free.iter().rev();
        let needed = largest_first.take_while(|&&free| {
            let needed = rest > 0;
            rest = rest.saturating_sub(free.into());
            needed
        });
        needed.count()
    }
}

/// Least amount of `resource` that carries the model's load, if instances were divisible.
fn least(instance: &ProblemInstance<'_>, model: usize, resource: fn(&Resources) -> u64) -> u128 {
    let load = u128::from(instance.load(model));
    let shares = instance.choices.at(model).iter().map(|choice: &Choice| {
        let amount = u128::from(resource(&choice.needs)).saturating_mul(load);
        amount.div_ceil(u128::from(choice.rate))
    });
    shares.min().unwrap_or(0)
}
