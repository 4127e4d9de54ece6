//! Tests of a plan's choices and their resources.

use serde_json::{Value, json};

use crate::plan::run::{FUNCTIONS, NODES, functions_with, json, plan};

#[test]
fn a_plan_carries_the_loads_and_its_figures_add_up() {
    let plan = json(&[FUNCTIONS, NODES], &[]);
    assert_eq!(plan["version"], 1);
    assert_eq!(plan["feasible"], true);
    for function in plan["functions"].as_array().unwrap() {
        let rate = |field: &str| function[field].as_u64().unwrap();
        assert!(rate("carried_micro_rps") >= rate("planned_micro_rps"));
        assert!(rate("planned_micro_rps") > rate("needed_micro_rps"));
        assert!(rate("needed_micro_rps") > rate("load_micro_rps"));
        for entry in function["configurations"].as_array().unwrap() {
            assert!(entry["latency_us"].as_u64() <= entry["latency_limit_us"].as_u64());
        }
    }
    let sum = |field: &str| -> u64 {
        let nodes = plan["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node[field].as_u64().unwrap()).sum()
    };
    let total = |field: &str| plan["totals"][field].as_u64().unwrap();
    assert_eq!(
        sum("own_bytes") + sum("tensor_bytes"),
        total("memory_bytes")
    );
    assert_eq!(sum("cpu_millis"), total("cpu_millis"));
    let bound = plan["comparison"]["lower_bound_bytes"].as_u64().unwrap();
    assert!(bound > 0 && bound <= total("cost_bytes"));
    for other in ["published", "unshared"] {
        let other = &plan["comparison"][other]["memory_bytes"];
        assert!(other.as_u64().unwrap() >= total("memory_bytes"), "{other}");
    }
}

#[test]
fn instances_go_where_their_tensors_are_and_sharing_counts_once() {
    let plan = json(&[FUNCTIONS, NODES], &[]);
    let nodes = plan["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1);
    // Six shared tensors of 64 MiB, and one of 20 and of 30 MiB per model; all but the 30 are
    // resident.
    assert_eq!(nodes[0]["name"], "warm");
    assert_eq!(nodes[0]["tensor_bytes"], json!(434 << 20));
    assert_eq!(nodes[0]["resident_bytes"], json!(404 << 20));
}

#[test]
fn ten_thousand_nodes_are_planned_for() {
    let nodes = "kind: PlanNodes\nnodes:\n  - {name: node, count: 10000, cpuMillis: 16000, memoryBytes: 34359738368}\n";
    let start = std::time::Instant::now();
    let plan = json(&[FUNCTIONS, nodes], &["--load", "a=12000"]);
    println!(
        "10,000 nodes: decided in {} us, {:?} in all",
        plan["decision_us"],
        start.elapsed()
    );
    assert_eq!(plan["feasible"], true);
    assert!(plan["nodes"].as_array().unwrap().len() >= 20);
}

#[test]
fn nodes_pods_and_inventories_of_a_cluster_are_read() {
    let inventory = inventory("node-b");
    let plan = json(
        &[FUNCTIONS, include_str!("files/cluster.yaml"), &inventory],
        &[],
    );
    let names: Vec<&Value> = plan["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| &plan["name"])
        .collect();
    // node-a is full, node-c cordoned.
    assert_eq!(names, ["node-b"]);
    let instances = plan["nodes"][0]["instances"].as_array().unwrap();
    let running = instances
        .iter()
        .filter(|instance| instance["running"] == 1)
        .count();
    assert_eq!(running, 1, "{instances:?}");
    assert_eq!(plan["nodes"][0]["resident_bytes"], json!(384 << 20));
}

/// Returns the page of a node with the tensors that both models share.
fn inventory(node: &str) -> String {
    let lines = FUNCTIONS
        .lines()
        .take_while(|line| !line.starts_with("---"));
    let ids = lines.filter_map(|line| line.trim().strip_prefix("- {id: ")?.get(..64));
    let ids: Vec<&str> = ids.take(6).collect();
    json!({"version": 1, "node": node, "stores": [{"name": "serving", "id": "s", "usable": true,
        "mount": 0, "capacity_bytes": 4_u64 << 30, "free_bytes": 3_u64 << 30, "reclaimable_bytes": 0,
        "truncated": false, "objects": ids}]})
    .to_string()
}

#[test]
fn a_table_has_all_that_matters() {
    let run = plan(&[FUNCTIONS, NODES], &["--load", "serving/b=80"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    for part in [
        "serving/a",
        "c4000-b8-p2",
        "180 ",
        "warm",
        "434 MiB",
        "this plan",
        "DTS, most similar node",
        "no sharing",
        "No plan costs less than",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert!(!run.out.contains("why"));
}

#[test]
fn a_function_without_load_has_no_instances_and_that_is_a_plan() {
    let functions = functions_with("requestsPerSecond: 150", "requestsPerSecond: 0");
    let plan = json(&[&functions, NODES], &["--load", "b=0"]);
    assert_eq!(plan["feasible"], true);
    assert_eq!(plan["totals"]["instances"], 0);
}
