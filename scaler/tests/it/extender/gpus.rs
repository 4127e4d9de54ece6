//! Answers for functions on GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tetris_scaler::extender::{Form, filter, prioritize};
use tetris_scaler::state::{FunctionState, Snapshot};
use tetris_scaler_core::{
    Configuration, ConfigurationSpec, GpuNeeds, GpuRoom, GpuView, Profile, Spread,
};

use crate::extender::cluster::cluster;

const T4: &str = "Tesla T4";

/// The cluster of the other tests, with a function that needs a T4 and 1 GiB of its memory.
fn with_gpus() -> Snapshot {
    let mut snapshot = cluster();
    let state = snapshot.functions.values_mut().next().unwrap();
    let mut model = state.model.as_ref().clone();
    let all = model.profile.configurations().iter().map(|configuration| {
        let gpu = Some(GpuNeeds {
            kind: T4.parse().unwrap(),
            own_bytes: 1 << 30,
            share_permille: 500,
        });
        let spec = ConfigurationSpec::from(*configuration);
        Configuration::try_new(ConfigurationSpec { gpu, ..spec }).unwrap()
    });
    model.profile = Profile::try_new(all.collect()).unwrap();
    let ids: Vec<_> = model.tensors.objects().iter().map(|(id, _)| *id).collect();
    let state = Arc::make_mut(state);
    state.model = Arc::new(model);
    let gpu = |kind: &str, own_bytes: u64, resident: usize| {
        GpuRoom::of(&GpuView {
            uuid: "GPU".to_owned(),
            kind: kind.parse().unwrap(),
            tensor_bytes: 1 << 30,
            own_bytes,
            resident: Arc::new(ids[..resident].iter().copied().collect()),
        })
    };
    let gpus: BTreeMap<&str, Vec<GpuRoom>> = BTreeMap::from([
        ("warm", vec![gpu(T4, 2 << 30, 0)]),
        ("half", vec![gpu(T4, 2 << 30, 0), gpu(T4, 2 << 30, 4)]),
        ("cold", vec![gpu(T4, 1 << 29, 0)]),
        ("busy", vec![gpu("NVIDIA A100-SXM4-80GB", 2 << 30, 0)]),
    ]);
    let nodes = snapshot.nodes.iter();
    let gpus = nodes.map(|node| gpus.get(node.name.as_str()).cloned().unwrap_or_default());
    snapshot.gpus = gpus.collect();
    snapshot
}

fn ask(snapshot: &Snapshot) -> (Value, Value) {
    let state: &FunctionState = snapshot.functions.values().next().unwrap();
    let names = ["warm", "half", "cold", "busy", "silent"].map(str::to_owned);
    let filtered = filter(snapshot, Some(state), Form::Names(names.to_vec()));
    let scores = prioritize(
        snapshot,
        Some(state),
        Spread::default(),
        &Form::Names(names.to_vec()),
    );
    let scores: Vec<i64> = scores.iter().map(|entry| entry.score).collect();
    (serde_json::to_value(filtered).unwrap(), json!(scores))
}

#[test]
fn nodes_of_which_no_gpu_has_room_fail_and_say_what_is_missing() {
    let (filtered, _) = ask(&with_gpus());
    assert_eq!(filtered["NodeNames"], json!(["warm", "half", "silent"]));
    let reasons = &filtered["FailedAndUnresolvableNodes"];
    let reason = |node: &str| reasons[node].as_str().unwrap().to_owned();
    assert_eq!(
        reason("cold"),
        "no GPU has room for function bert: 512 MiB of device memory are missing"
    );
    assert_eq!(
        reason("busy"),
        "the node's daemon has no GPU for function bert, expected one of: Tesla T4"
    );
}

#[test]
fn a_gpu_without_time_left_fails() {
    let mut snapshot = with_gpus();
    let mut gpus = snapshot.gpus.to_vec();
    for gpu in gpus.iter_mut().flatten() {
        gpu.share_permille = 400;
    }
    snapshot.gpus = gpus.into();
    let (filtered, _) = ask(&snapshot);
    let reason = &filtered["FailedAndUnresolvableNodes"]["warm"];
    assert_eq!(
        reason,
        "no GPU has time left for function bert: 100 thousandths are missing"
    );
}

#[test]
fn scores_count_the_bytes_in_device_memory_too() {
    let (_, scores) = ask(&with_gpus());
    // All in the store and none on the GPU; half and all; none; all in the store, and no GPU.
    assert_eq!(scores, json!([6, 8, 1, 5, 1]));
}
