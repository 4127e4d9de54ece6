//! Tests of the reasons in a plan.

use serde_json::Value;

use crate::plan::run::{FUNCTIONS, NODES, functions_with, json, plan};

fn verdicts<'a>(plan: &'a Value, configuration: &str) -> &'a Value {
    let candidates = plan["functions"][0]["candidates"].as_array().unwrap();
    let mut matching = candidates
        .iter()
        .filter(|candidate| candidate["configuration"] == configuration);
    matching.next().unwrap()
}

#[test]
fn each_configuration_is_explained() {
    let plan = json(&[FUNCTIONS, NODES], &["--explain"]);
    let verdict = |name| verdicts(&plan, name)["verdict"].as_str().unwrap();
    assert_eq!(verdict("c4000-b8-p2"), "chosen");
    assert_eq!(verdict("c1000-b1-p1"), "chosen");
    assert_eq!(verdict("c2000-b4-p1"), "not_needed");
    assert_eq!(verdict("c64000-b8-p8"), "too_large");
    assert_eq!(
        verdicts(&plan, "c64000-b8-p8")["missing"]["cpu_millis"],
        48_000
    );
    let slow = verdicts(&plan, "c8000-b16-p4");
    assert_eq!(
        (slow["latency_us"].as_u64(), slow["limit_us"].as_u64()),
        (Some(240_000), Some(100_000))
    );
    let alone = verdicts(&plan, "c1000-b1-p1");
    // 180 requests/s, at 1 / 60 ms each.
    assert_eq!(alone["alone_replicas"], 11);
}

#[test]
fn what_is_slower_and_larger_is_dominated() {
    let functions = functions_with("{latencyMillis: 200}", "{latencyMillis: 300}");
    let plan = json(&[&functions, NODES], &["--explain"]);
    let slow = verdicts(&plan, "c2000-b2-p1");
    assert_eq!(slow["verdict"], "dominated");
    assert_eq!(slow["by"], "c1000-b1-p1");
}

#[test]
fn explanations_are_for_people() {
    let run = plan(&[FUNCTIONS, NODES], &["--load", "b=80", "--explain"]);
    for part in [
        "too slow: 240 ms, limit 100 ms,",
        "of the objective, as requests wait",
        "fits on no node: warm lacks 48 CPUs",
        "others carry the load for less",
        "Sharing: tensors take 434 MiB",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
}

#[test]
fn an_objective_that_nothing_meets_is_refused_with_the_smallest() {
    let functions = functions_with("{latencyMillis: 200}", "{latencyMillis: 50}");
    let run = plan(&[&functions, NODES], &["--load", "b=80"]);
    assert_eq!(run.status, 1);
    assert!(
        run.err.contains("serving/a: ") && run.err.contains("60000 us"),
        "{}",
        run.err
    );
    // The other function is still planned.
    assert!(run.out.contains("serving/b"), "{}", run.out);
    assert!(!run.err.contains("serving/b"), "{}", run.err);
}

#[test]
fn nodes_that_are_too_small_are_refused_with_what_is_missing() {
    let nodes =
        "kind: PlanNodes\nnodes: [{name: tiny, cpuMillis: 500, memoryBytes: 34359738368}]\n";
    let run = plan(&[FUNCTIONS, nodes], &["--load", "b=80"]);
    assert_eq!(run.status, 1);
    assert!(
        run.err
            .contains("node tiny comes closest, and lacks 500 millicores"),
        "{}",
        run.err
    );
    let nodes = nodes.replace("500", "4500");
    let run = plan(
        &[FUNCTIONS, &nodes],
        &["--load", "b=80", "--load", "a=2000"],
    );
    assert_eq!(run.status, 1);
    assert!(run.err.contains("missing"), "{}", run.err);
}
