//! GPUs of a plan: their instances, and the tensors that these bring.

use std::collections::BTreeMap;

use serde::Serialize;
use tetris_scaler_core::{
    GpuRoom, InstanceView, Phase, Placed, View, WHOLE_GPU_PERMILLE, gpu_places,
};

use super::functions::Function;
use super::problem::Problem;

/// A GPU with instances.
#[derive(Debug, Serialize)]
pub(super) struct GpuReport {
    pub(super) uuid: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) instances: Vec<GpuInstancesReport>,
    /// Private device memory of the instances.
    pub(super) own_bytes: u64,
    /// Tensors of their models, each counted once.
    pub(super) tensor_bytes: u64,
    /// Bytes of `tensor_bytes` that are not in device memory yet.
    pub(super) copied_bytes: u64,
    /// Time of these copies at the measured rates; null if a profile has no load of this type.
    pub(super) load_us: Option<u64>,
    /// Part of the GPU's time that the instances take at their full rate, in thousandths.
    pub(super) time_permille: u32,
}

/// Instances of a configuration on a GPU.
#[derive(Debug, Serialize)]
pub(super) struct GpuInstancesReport {
    pub(super) namespace: String,
    pub(super) function: String,
    pub(super) configuration: String,
    pub(super) replicas: u32,
}

/// Returns the GPUs with instances, by node.
pub(super) fn gpus(problem: &Problem, placed: &[Placed]) -> BTreeMap<usize, Vec<GpuReport>> {
    let with_gpu = |one: &&Placed| {
        let function = problem.functions.get(one.model);
        let all = function.map(|function| function.model.profile.configurations());
        let of_model = all.and_then(|all| all.get(one.configuration));
        of_model.is_some_and(|function| function.gpu().is_some())
    };
    let with_gpus = placed.iter().filter(with_gpu);
    let instances = with_gpus.flat_map(|entry| (0..entry.count).map(move |_| instance(entry)));
    let instances: Vec<InstanceView> = instances.collect();
    let places = gpu_places(&View {
        instances: &instances,
        ..problem.view()
    });
    let mut used: BTreeMap<(usize, usize), Used<'_>> = BTreeMap::new();
    for (one, place) in instances.iter().zip(places) {
        let (Some(node), Some(gpu)) = (one.node, place) else {
            continue;
        };
        let view = problem.cluster.nodes.get(node);
        if let Some(view) = view.and_then(|node| node.gpus.get(gpu)) {
            let used = used.entry((node, gpu));
            let used = used.or_insert_with(|| Used::new(problem, GpuRoom::of(view)));
            used.add(one);
        }
    }
    let mut reports: BTreeMap<usize, Vec<GpuReport>> = BTreeMap::new();
    for ((node, gpu), used) in used {
        let view = problem.cluster.nodes.get(node);
        let uuid = view.and_then(|node| node.gpus.get(gpu));
        let uuid = uuid.map(|gpu| gpu.uuid.clone()).unwrap_or_default();
        reports.entry(node).or_default().push(used.report(uuid));
    }
    reports
}

fn instance(placed: &Placed) -> InstanceView {
    InstanceView {
        name: String::new(),
        function: placed.model,
        configuration: Some(placed.configuration),
        node: Some(placed.node),
        gpu: placed.gpu,
        phase: Phase::Starting,
        load: None,
        retiring: false,
    }
}

/// A GPU as instances take it.
struct Used<'a> {
    problem: &'a Problem,
    room: GpuRoom,
    counts: BTreeMap<(usize, usize), u32>,
    own_bytes: u64,
    tensor_bytes: u64,
    copied_bytes: u64,
    load_us: Option<u64>,
}

impl<'a> Used<'a> {
    fn new(problem: &'a Problem, room: GpuRoom) -> Self {
        Self {
            problem,
            room,
            counts: BTreeMap::new(),
            own_bytes: 0,
            tensor_bytes: 0,
            copied_bytes: 0,
            load_us: Some(0),
        }
    }

    fn add(&mut self, one: &InstanceView) {
        let (Some(function), Some(configuration)) =
            (self.problem.functions.get(one.function), one.configuration)
        else {
            return;
        };
        let all = function.model.profile.configurations();
        let Some(needs) = all
            .get(configuration)
            .and_then(|configuration| configuration.gpu())
        else {
            return;
        };
        let (room, copied) = self.room.of_tensors(&function.model.tensors);
        self.room.take(needs, &function.model.tensors);
        self.own_bytes = self.own_bytes.saturating_add(needs.own_bytes);
        self.tensor_bytes = self.tensor_bytes.saturating_add(room);
        self.copied_bytes = self.copied_bytes.saturating_add(copied);
        let loads = function.gpu_loads.iter();
        let mut loads = loads.filter(|load| load.kind == needs.kind);
        let load_us = match (copied, loads.next()) {
            (0, _) => Some(0),
            (_, Some(load)) => Some(load.micros_of(copied)),
            (_, None) => None,
        };
        let both = self.load_us.zip(load_us);
        self.load_us = both.map(|(a, b)| a.saturating_add(b));
        let count = self.counts.entry((one.function, configuration));
        let count = count.or_default();
        *count = count.saturating_add(1);
    }

    fn report(self, uuid: String) -> GpuReport {
        let instances = self
            .counts
            .iter()
            .filter_map(|(&(function, at), &replicas)| {
                let function: &Function = self.problem.functions.get(function)?;
                Some(GpuInstancesReport {
                    namespace: function.key.namespace.clone(),
                    function: function.key.name.clone(),
                    configuration: function.names.get(at)?.clone(),
                    replicas,
                })
            });
        GpuReport {
            uuid,
            kind: self.room.kind.to_string(),
            instances: instances.collect(),
            own_bytes: self.own_bytes,
            tensor_bytes: self.tensor_bytes,
            copied_bytes: self.copied_bytes,
            load_us: self.load_us,
            time_permille: WHOLE_GPU_PERMILLE.saturating_sub(self.room.share_permille),
        }
    }
}
