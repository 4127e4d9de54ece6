//! Snapshots, as a pass of the operator publishes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tetris_scaler::resources::{InferenceFunction, ModelProfile, parse};
use tetris_scaler::state::{FunctionState, Key, Snapshot};
use tetris_scaler_core::{FunctionDecision, FunctionModel, FunctionOutcome, Rate};
use tetris_store_layout::ObjectId;

/// Namespace of all functions, and name of their store.
pub const NAMESPACE: &str = "serving";
/// Size of each tensor, in bytes.
pub const TENSOR_BYTES: u64 = 100 << 20;

/// Returns a profile of two configurations, `c1000-b1-p1` and `c4000-b4-p2`. All profiles share
/// their first tensors.
pub fn profile(name: &str, tensors: usize) -> ModelProfile {
    let configuration = |cpu: u64, batch: u32, concurrency: u32| {
        json!({"cpuMillis": cpu, "batch": batch, "concurrency": concurrency, "ownBytes": cpu << 18,
          "latencyMicros": {"p50": 40_000, "p90": 45_000, "p95": 50_000, "p99": 60_000}})
    };
    let objects = (0..tensors).map(|at| {
        let id = ObjectId::of(format!("tensor {at}").as_bytes());
        json!({"id": id.to_string(), "bytes": TENSOR_BYTES})
    });
    let profile = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"model": name, "configurations": [configuration(1_000, 1, 1), configuration(4_000, 4, 2)],
          "objects": objects.collect::<Vec<_>>()},
    });
    parse(profile).unwrap()
}

/// Returns a function; its profile has the same name.
pub fn function(name: &str, scaling: &str) -> InferenceFunction {
    let function = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"profile": name, "slo": {"latencyMillis": 200}, "scaling": scaling,
          "load": {"static": {"requestsPerSecond": 10}},
          "template": {"spec": {"containers": [{"name": "server", "image": "registry.example.com/server:1"}]}}},
    });
    parse(function).unwrap()
}

/// Returns a snapshot with functions, each with a model of four tensors and no instances.
pub fn snapshot(functions: &[(&str, &str)]) -> Snapshot {
    let states = functions.iter().map(|(name, scaling)| {
        let state = state(&profile(name, 4), &function(name, scaling));
        (Key::new(NAMESPACE, *name), Arc::new(state))
    });
    Snapshot {
        functions: states.collect(),
        decided_ms: 1,
    }
}

pub fn state(profile: &ModelProfile, function: &InferenceFunction) -> FunctionState {
    let (profile, function) = (profile.checked().unwrap(), function.checked().unwrap());
    let allowed = function.allowed(&profile).unwrap();
    let selected = profile.for_function(&function, allowed).unwrap();
    let model = FunctionModel {
        name: function.name.clone(),
        profile: selected.profile,
        slo: function.slo,
        tensors: profile.tensors(&function.store).unwrap(),
        store: function.store.clone(),
        allowed: selected.allowed,
        alpha_bytes_per_millicore: 0,
    };
    FunctionState {
        function: Arc::new(function),
        model: Arc::new(model),
        configurations: selected.names.into(),
        load: Some(Rate::from_rps(10)),
        decision: FunctionDecision {
            replicas: BTreeMap::new(),
            start: BTreeMap::new(),
            release: Vec::new(),
            retiring: Vec::new(),
            ranking: Vec::new(),
            preferred: BTreeMap::new(),
            capacity: Rate::ZERO,
            ready: Rate::ZERO,
            needed: Rate::ZERO,
            outcome: FunctionOutcome::Steady,
        },
        failing: BTreeMap::from([("CrashLoopBackOff", 1)]),
    }
}

/// Sets the decided number of instances.
#[allow(dead_code, reason = "not all tests decide")]
pub fn decide(snapshot: &mut Snapshot, function: &str, configuration: usize, replicas: u32) {
    let state = snapshot
        .functions
        .get_mut(&Key::new(NAMESPACE, function))
        .unwrap();
    let state = Arc::make_mut(state);
    state.decision.replicas.insert(configuration, replicas);
}
