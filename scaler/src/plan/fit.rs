//! Configurations that fit on some node.

use tetris_scaler_core::{Configuration, GpuRoom, NodeView, Profile, Shortage, Similarity, Thetas};

use super::functions::Function;
use super::problem::Problem;

/// The nodes from the view of one function.
pub(super) struct Fit<'a> {
    problem: &'a Problem,
    function: &'a Function,
    thetas: Thetas<'a>,
}

impl<'a> Fit<'a> {
    pub(super) fn new(problem: &'a Problem, function: &'a Function) -> Self {
        let tensors = &function.model.tensors;
        Self {
            problem,
            function,
            thetas: problem.cluster.inventory.thetas(tensors),
        }
    }

    /// Returns the node that lacks least for one instance, and the shortage.
    pub(super) fn closest(&self, one: &Configuration) -> Option<(&'a str, Shortage)> {
        let nodes = self.problem.cluster.nodes.iter();
        let with_gpu = one.gpu().is_some();
        let open = nodes.filter(|node| node.accepts_new && (with_gpu || !node.gpus_only));
        let lacking = open.map(|node| (node.name.as_str(), self.lacks(node, one)));
        lacking.min_by_key(|(_, missing)| {
            let memory = missing.memory_bytes.saturating_add(missing.tensor_bytes);
            let of_gpu = (missing.gpus, missing.gpu_bytes, missing.gpu_permille);
            (!missing.is_none(), of_gpu, missing.cpu_millis, memory)
        })
    }

    fn lacks(&self, node: &NodeView, one: &Configuration) -> Shortage {
        let theta = self.thetas.of(&node.name);
        let total = self.function.model.tensors.total_bytes();
        let tensors = theta.map_or(total, Similarity::missing_bytes);
        let (in_memory, room) = node
            .tensor_bytes
            .map_or((tensors, u64::MAX), |room| (0, room));
        let of_store = node.stores.get(&self.function.model.store);
        let room = of_store.map_or(room, |store| room.min(*store));
        let memory = one.own_bytes().saturating_add(in_memory);
        Shortage {
            cpu_millis: one.cpu_millis().saturating_sub(node.free.cpu_millis),
            memory_bytes: memory.saturating_sub(node.free.memory_bytes),
            tensor_bytes: tensors.saturating_sub(room),
            ..self.lacks_on_gpu(node, one)
        }
    }

    /// Returns the shortage of the node's best GPU for an instance without others beside it.
    fn lacks_on_gpu(&self, node: &NodeView, one: &Configuration) -> Shortage {
        let Some(needs) = one.gpu() else {
            return Shortage::default();
        };
        let of_type = node.gpus.iter().filter(|gpu| gpu.kind == needs.kind);
        let lacking = of_type.map(|gpu| {
            let room = GpuRoom::of(gpu);
            room.lacks(needs, room.of_tensors(&self.function.model.tensors).0)
        });
        let least = lacking.min_by_key(|lacks| lacks.bytes);
        match least {
            None => Shortage {
                gpus: 1,
                ..Shortage::default()
            },
            Some(lacks) => Shortage {
                gpu_bytes: lacks.bytes,
                gpu_permille: lacks.share_permille.into(),
                ..Shortage::default()
            },
        }
    }

    /// Returns the allowed configurations that fit on some node, for algorithms that ignore nodes
    /// when they choose. Returns all allowed configurations if none fits.
    pub(super) fn profile(&self) -> Profile {
        let allowed = &self.function.allowed;
        let all = allowed.configurations().iter();
        let fits = |one: &&Configuration| {
            let closest = self.closest(one);
            closest.is_some_and(|(_, missing)| missing.is_none())
        };
        let fitting = Profile::try_new(all.filter(fits).copied().collect());
        fitting.unwrap_or_else(|_| allowed.clone())
    }
}
