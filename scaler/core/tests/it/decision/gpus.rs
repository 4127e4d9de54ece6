//! Decisions and places for functions on GPUs.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use tetris_scaler_core::{
    Configuration, ConfigurationSpec, FunctionModel, FunctionOutcome, FunctionView, GpuNeeds,
    GpuView, InstanceView, Inventory, ModelTensors, NodeView, Phase, Place, Profile, Settings,
    View, Waiting, assign, decide, gpu_rooms,
};

use crate::decision::cases::{function, model, node, ready, tensor};

const T4: &str = "Tesla T4";
const A100: &str = "NVIDIA A100-SXM4-80GB";

/// Lets each configuration of the model need a GPU: of the type, private bytes and thousandths.
fn on_gpus(model: FunctionModel, needs: &[(&str, u64, u32)]) -> FunctionModel {
    let all = model.profile.configurations().iter().zip(needs);
    let all = all.map(|(one, &(kind, own_bytes, share_permille))| {
        let gpu = Some(GpuNeeds {
            kind: kind.parse().unwrap(),
            own_bytes,
            share_permille,
        });
        let spec = ConfigurationSpec {
            gpu,
            ..ConfigurationSpec::from(*one)
        };
        Configuration::try_new(spec).unwrap()
    });
    FunctionModel {
        profile: Profile::try_new(all.collect()).unwrap(),
        ..model
    }
}

fn gpu(kind: &str, tensor_bytes: u64, own_bytes: u64, resident: &[u8]) -> GpuView {
    GpuView {
        uuid: format!("GPU-{kind}"),
        kind: kind.parse().unwrap(),
        tensor_bytes,
        own_bytes,
        resident: Arc::new(resident.iter().map(|name| tensor(*name)).collect()),
    }
}

fn with_gpus(name: &str, gpus: Vec<GpuView>) -> NodeView {
    NodeView {
        gpus,
        ..node(name, 64_000, 100_000)
    }
}

/// A function that may run on either type; a T4 costs less memory.
fn either(rps: u64) -> FunctionView {
    let rows = [(1_000, 10, 10, 500), (2_000, 50, 40, 500)];
    let model = model("m", &rows, &[(1, 500)]);
    function(on_gpus(model, &[(T4, 30, 500), (A100, 60, 500)]), rps)
}

fn outcome(functions: &[FunctionView], nodes: &[NodeView]) -> (FunctionOutcome, Vec<usize>) {
    let view = View {
        functions,
        instances: &[],
        nodes,
        inventory: &Inventory::default(),
    };
    let decided = decide(&view, &Settings::default()).functions.remove(0);
    let planned = decided.preferred.values().flatten();
    let planned = planned
        .filter(|function| function.planned > 0)
        .map(|function| function.node);
    (decided.outcome, planned.collect())
}

#[test]
fn instances_start_on_the_types_that_the_nodes_have() {
    let none = node("a", 64_000, 100_000);
    let a100 = with_gpus("b", vec![gpu(A100, 5_000, 5_000, &[])]);
    let (outcome, planned) = outcome(&[either(8)], &[none, a100]);
    assert!(
        matches!(outcome, FunctionOutcome::ScaledOut { started: 1 }),
        "{outcome}"
    );
    assert_eq!(planned, [1]);
}

#[test]
fn a_minimum_is_of_configurations_that_can_start() {
    let nodes = [with_gpus("b", vec![gpu(A100, 5_000, 5_000, &[])])];
    let idle = FunctionView {
        min_instances: 2,
        ..either(0)
    };
    let (outcome, planned) = outcome(&[idle], &nodes);
    assert!(
        matches!(outcome, FunctionOutcome::ScaledOut { started: 2 }),
        "{outcome}"
    );
    assert_eq!(planned, [0]);
}

#[test]
fn a_function_that_no_gpu_fits_says_what_is_lacking() {
    let (without, _) = outcome(&[either(8)], &[node("a", 64_000, 100_000)]);
    assert_eq!(
        without.to_string(),
        "no node is large enough; node a comes closest, and lacks 1 GPU of the configuration's type"
    );
    let small = with_gpus("a", vec![gpu(T4, 400, 5_000, &[])]);
    let (small, _) = outcome(&[either(8)], &[small]);
    assert_eq!(
        small.to_string(),
        "no node is large enough; node a comes closest, and lacks 100 bytes of GPU memory"
    );
}

#[test]
fn the_gpu_with_the_tensors_gets_the_instance() {
    let nodes = [
        with_gpus("a", vec![gpu(T4, 5_000, 5_000, &[])]),
        with_gpus(
            "b",
            vec![gpu(T4, 5_000, 5_000, &[]), gpu(T4, 5_000, 5_000, &[1])],
        ),
    ];
    let functions = [either(8)];
    let (_, planned) = outcome(&functions, &nodes);
    assert_eq!(planned, [1]);
    let waiting = InstanceView {
        node: None,
        phase: Phase::Starting,
        ..ready("i", 0, 0, 0)
    };
    let view = View {
        functions: &functions,
        instances: &[waiting],
        nodes: &nodes,
        inventory: &Inventory::default(),
    };
    let waiting = Waiting {
        instance: 0,
        ..Waiting::default()
    };
    let place = Place {
        node: 1,
        gpu: Some(1),
    };
    for planned in [None, Some(1)] {
        let planned_first = Waiting {
            planned,
            ..waiting.clone()
        };
        assert_eq!(
            assign(&view, &[planned_first], &Settings::default()),
            [Some(place)]
        );
    }
}

#[test]
fn instances_count_on_their_gpu_or_where_they_would_be_placed() {
    let nodes = [with_gpus(
        "a",
        vec![gpu(T4, 5_000, 40, &[]), gpu(T4, 5_000, 90, &[])],
    )];
    let on = |gpu| InstanceView {
        gpu,
        ..ready("i", 0, 0, 0)
    };
    let rooms = |instances: &[InstanceView]| {
        let rooms = gpu_rooms(&View {
            functions: &[either(8)],
            instances,
            nodes: &nodes,
            inventory: &Inventory::default(),
        });
        [0, 1].map(|gpu| (rooms[0][gpu].own_bytes, rooms[0][gpu].tensor_bytes))
    };
    assert_eq!(rooms(&[on(Some(0))]), [(10, 4_500), (90, 5_000)]);
    assert_eq!(rooms(&[on(None)]), [(40, 5_000), (60, 4_500)]);
    // One that is out of range, and more than there is room for.
    let many = [on(Some(9)), on(Some(0)), on(Some(0)), on(Some(0))];
    assert_eq!(rooms(&many), [(0, 4_500), (60, 4_500)]);
}

type Gpu = (bool, u64, u64, Vec<u8>);

fn nodes() -> impl Strategy<Value = Vec<NodeView>> {
    let resident = proptest::collection::vec(1..4_u8, 0..3);
    let one_gpu = (any::<bool>(), 0..1_500_u64, 0..200_u64, resident);
    let of_node = proptest::collection::vec(one_gpu, 0..4);
    let nodes = proptest::collection::vec(of_node, 1..4);
    nodes.prop_map(|nodes| {
        let with_gpus = nodes
            .into_iter()
            .enumerate()
            .map(|(at, gpus): (usize, Vec<Gpu>)| {
                let gpus = gpus.iter().map(|(is_t4, tensors, own, resident)| {
                    gpu(if *is_t4 { T4 } else { A100 }, *tensors, *own, resident)
                });
                with_gpus(&format!("node-{at}"), gpus.collect())
            });
        with_gpus.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn assigned_instances_never_exceed_a_gpu(
        nodes in nodes(),
        waits in proptest::collection::vec((0..2_usize, 0..2_usize, proptest::option::of(0..4_usize)), 0..20),
    ) {
        let variant = FunctionView {
            model: Arc::new(FunctionModel {
                name: "n".to_owned(),
                tensors: two_tensors(),
                ..(*either(0).model).clone()
            }),
            ..either(0)
        };
        let functions = [either(8), variant];
        let instances: Vec<InstanceView> = waits.iter().enumerate().map(|(at, wait)| InstanceView {
            function: wait.0,
            node: None,
            phase: Phase::Starting,
            ..ready(&format!("instance-{at:02}"), wait.1, 0, 0)
        }).collect();
        let waiting: Vec<Waiting> = waits.iter().enumerate().map(|(instance, wait)| Waiting {
            instance,
            planned: wait.2.filter(|node| *node < nodes.len()),
            excluded: BTreeSet::new(),
        }).collect();
        let view = View {
            functions: &functions,
            instances: &instances,
            nodes: &nodes,
            inventory: &Inventory::default(),
        };
        let places = assign(&view, &waiting, &Settings::default());
        for (at, node) in nodes.iter().enumerate() {
            for (gpu, device) in node.gpus.iter().enumerate() {
                let place = Some(Place { node: at, gpu: Some(gpu) });
                let here = instances.iter().zip(&places).filter(|(_, instance)| **instance == place);
                let (mut own, mut share, mut tensors) = (0, 0, BTreeSet::new());
                for (one, _) in here {
                    let model = &functions[one.function].model;
                    let needs = model.profile.configurations()[one.configuration.unwrap()];
                    let needs = needs.gpu().unwrap();
                    prop_assert_eq!(needs.kind, device.kind);
                    own += needs.own_bytes;
                    share += needs.share_permille;
                    tensors.extend(model.tensors.objects().iter().copied());
                }
                let tensors: u64 = tensors.iter().map(|(_, bytes)| bytes).sum();
                prop_assert!(own <= device.own_bytes && share <= 1_000 && tensors <= device.tensor_bytes);
            }
        }
        let placed = places.iter().flatten();
        prop_assert!(placed.clone().all(|place| place.gpu.is_some()));
        prop_assert_eq!(assign(&view, &waiting, &Settings::default()), places.clone());
    }
}

fn two_tensors() -> ModelTensors {
    let objects = [(tensor(1), 500), (tensor(2), 100)];
    ModelTensors::try_new(objects).unwrap()
}
