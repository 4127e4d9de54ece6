//! Functions and nodes for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{
    Configuration, ConfigurationSpec, FunctionModel, FunctionView, InstanceView, ModelTensors,
    NodeView, Phase, Profile, Rate, Resources, ScaleInConfig, ScaleInPolicy, Slo,
};
use tetris_store_layout::ObjectId;

/// A configuration: millicores, private bytes, requests per second, milliseconds.
pub type Row = (u64, u64, u32, u64);

pub fn tensor(name: u8) -> ObjectId {
    ObjectId::of(&[name])
}

/// Creates a model with an objective of a second.
pub fn model(name: &str, rows: &[Row], tensors: &[(u8, u64)]) -> FunctionModel {
    let shared_bytes = tensors.iter().map(|(_, bytes)| bytes).sum();
    let configurations = rows
        .iter()
        .map(|&(cpu_millis, own_bytes, rate, latency_ms)| {
            let spec = ConfigurationSpec {
                cpu_millis,
                own_bytes,
                shared_bytes,
                batch: 1,
                concurrency: rate * latency_ms as u32 / 1_000,
                latency_us: latency_ms * 1_000,
                rate_millis: None,
                gpu: None,
            };
            Configuration::try_new(spec).unwrap()
        });
    let objects = tensors.iter().map(|&(name, bytes)| (tensor(name), bytes));
    FunctionModel {
        store: "blue".to_owned(),
        name: name.to_owned(),
        profile: Profile::try_new(configurations.collect()).unwrap(),
        slo: Slo::try_from_us(1_000_000).unwrap(),
        tensors: ModelTensors::try_new(objects).unwrap(),
        allowed: Vec::new(),
        alpha_bytes_per_millicore: 0,
    }
}

/// Creates a policy with 10 % headroom of scaling out and 20 % of scaling in.
pub fn policy() -> ScaleInPolicy {
    ScaleInPolicy::try_new(ScaleInConfig {
        keep_percent: 20,
        scale_out_percent: 10,
        ..ScaleInConfig::default()
    })
    .unwrap()
}

/// Creates a function of up to 20 instances, with `rps` requests per second for a whole window.
pub fn function(model: FunctionModel, rps: u64) -> FunctionView {
    FunctionView {
        model: Arc::new(model),
        load: Some(Rate::from_rps(rps)),
        peak: Some(Rate::from_rps(rps)),
        min_instances: 0,
        max_instances: 20,
        scale_in: policy(),
        consolidate: false,
    }
}

/// Creates a node with all its resources free.
pub fn node(name: &str, cpu_millis: u64, memory_bytes: u64) -> NodeView {
    let all = Resources {
        cpu_millis,
        memory_bytes,
    };
    NodeView {
        name: name.to_owned(),
        all,
        free: all,
        tensor_bytes: None,
        stores: BTreeMap::new(),
        gpus: Vec::new(),
        gpus_only: false,
        accepts_new: true,
    }
}

/// Creates a ready instance of the first function.
pub fn ready(name: &str, configuration: usize, node: usize, load: u64) -> InstanceView {
    InstanceView {
        name: name.to_owned(),
        function: 0,
        configuration: Some(configuration),
        node: Some(node),
        gpu: None,
        phase: Phase::Ready,
        load: Some(Rate::from_rps(load)),
        retiring: false,
    }
}
