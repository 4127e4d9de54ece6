//! Plans for functions on GPUs, of the sample.

use serde_json::Value;

use crate::plan::run::{Run, plan};

const SAMPLE: &str = include_str!("../../../../deploy/samples/scaler/gpus.plan.yaml");

fn with(from: &str, to: &str) -> String {
    assert!(SAMPLE.contains(from), "{from}");
    SAMPLE.replace(from, to)
}

fn json(sample: &str) -> Value {
    let run = plan(&[sample], &["--format", "json", "--explain"]);
    assert_eq!(run.status, 0, "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

fn gpus(plan: &Value) -> Vec<&Value> {
    let nodes = plan["nodes"].as_array().unwrap().iter();
    let gpus = nodes.flat_map(|node| node["gpus"].as_array().into_iter().flatten());
    gpus.collect()
}

#[test]
fn instances_share_a_gpu_and_its_tensors() {
    let plan = json(SAMPLE);
    let gpus = gpus(&plan);
    let number = |gpu: &Value, field: &str| gpu[field].as_u64().unwrap();
    for gpu in &gpus {
        assert_eq!(gpu["type"], "Tesla T4");
        assert!(number(gpu, "own_bytes") <= 6_000_000_000, "{gpu}");
        assert!(number(gpu, "tensor_bytes") <= 4_200_000_000, "{gpu}");
        assert!(number(gpu, "time_permille") <= 1_000, "{gpu}");
        assert_eq!(
            gpu["copied_bytes"], gpu["tensor_bytes"],
            "nothing is there yet"
        );
        // 125 ms for each GB.
        assert_eq!(
            number(gpu, "load_us"),
            number(gpu, "copied_bytes") / 8_000,
            "{gpu}"
        );
    }
    // The variant is where its base is: 200 MB more than that.
    let both = gpus
        .iter()
        .filter(|gpu| gpu["instances"].as_array().unwrap().len() == 2);
    let both: Vec<_> = both.collect();
    assert_eq!(both.len(), 1, "{gpus:?}");
    assert_eq!(both[0]["tensor_bytes"], 4_200_000_000_u64);
}

#[test]
fn device_memory_is_a_part_of_the_cost_in_all_figures() {
    let plan = json(SAMPLE);
    let (ours, comparison) = (&plan["totals"], &plan["comparison"]);
    // Three instances, with 0.5 GB on the node and 1.2 GB on the GPU each.
    assert_eq!(ours["own_bytes"], 5_100_000_000_u64);
    assert_eq!(comparison["unshared"]["own_bytes"], 5_100_000_000_u64);
    // Both models share 4 GB, on the node and on its GPU.
    assert_eq!(ours["tensor_bytes"], 8_400_000_000_u64);
    assert_eq!(comparison["unshared"]["tensor_bytes"], 24_400_000_000_u64);
    let cost = ours["cost_bytes"].as_u64().unwrap();
    assert!(
        cost >= comparison["lower_bound_bytes"].as_u64().unwrap(),
        "{comparison}"
    );
}

#[test]
fn resident_tensors_are_not_copied() {
    let resident = with(
        "mirrorBytes: 10000000000}",
        "mirrorBytes: 10000000000, models: [base]}",
    );
    let plan = json(&resident);
    let copied = gpus(&plan)
        .iter()
        .map(|gpu| gpu["copied_bytes"].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(copied, 200_000_000, "the variant's own");
}

#[test]
fn an_unmeasured_load_has_no_time() {
    let run = plan(
        &[&with(
            "    - {type: Tesla T4, bytes: 4000000000, micros: 500000}\n",
            "",
        )],
        &[],
    );
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.out.contains("unmeasured"), "{}", run.out);
    assert!(run.out.contains("Tesla T4"), "{}", run.out);
}

fn fails(sample: &str, status: i32, says: &str) {
    let Run {
        status: found, err, ..
    } = plan(&[sample], &["--explain"]);
    assert_eq!(found, status, "{err}");
    assert!(err.contains(says), "{err}");
}

#[test]
fn a_function_that_no_gpu_fits_says_why() {
    fails(
        &with(
            "count: 2, memoryBytes: 16000000000",
            "count: 0, memoryBytes: 16000000000",
        ),
        1,
        "lacks 1 GPU of the configuration's type",
    );
    fails(
        &with("mirrorBytes: 10000000000", "mirrorBytes: 3000000000"),
        1,
        "lacks 1000000000 bytes of GPU memory",
    );
    fails(
        &with("gpu: {type: Tesla T4}", "gpu: {type: NVIDIA H100 PCIe}"),
        2,
        "`spec.gpu.type`: found \"NVIDIA H100 PCIe\", expected a type of the profile: NVIDIA A100-SXM4-80GB, Tesla T4",
    );
    fails(
        &with("  gpu: {}\n", ""),
        2,
        "`spec.gpu`: found none, expected one, as the profile has only configurations with GPUs: Tesla T4",
    );
    fails(
        &with("mirrorBytes: 10000000000", "mirrorBytes: 17000000000"),
        2,
        "`nodes[1].gpus`: found mirrorBytes 17000000000, expected at most memoryBytes",
    );
    fails(
        &with("gpu: {}", "gpu: {ownBytes: 7000000000}"),
        1,
        "lacks 1000000000 bytes of GPU memory",
    );
}

#[test]
fn an_explanation_names_the_gpu() {
    let run = plan(&[&with("gpu: {type: Tesla T4}", "gpu: {}")], &["--explain"]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.out.contains("lacks a GPU of this type"), "{}", run.out);
}
