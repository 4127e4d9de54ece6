//! Tests of invalid input.

use std::fs;

use tempfile::TempDir;

use crate::plan::run::{FUNCTIONS, NODES, functions_with, plan, plan_in};

#[test]
fn what_is_wrong_is_said_with_file_and_field() {
    let slo = functions_with("{latencyMillis: 200}", "{latencyMillis: 0}");
    let batch = functions_with("batch: 16", "batch: many");
    let id = functions_with("1d51f70f", "XX51f70f");
    let twice = format!("{FUNCTIONS}---\n{FUNCTIONS}");
    let no_profile = functions_with("profile: bert-b", "profile: gpt");
    let load = ["--load", "b=80"];
    let cases: [(&[&str], &[&str], &str); 15] = [
        (
            &[FUNCTIONS, NODES],
            &[],
            "the load of serving/b is in Prometheus",
        ),
        (
            &[&slo, NODES],
            &load,
            "InferenceFunction a: `spec.slo.latencyMillis`",
        ),
        (
            &[&batch, NODES],
            &load,
            "ModelProfile bert-a: `spec.configurations[5].batch`",
        ),
        (&[&id, NODES], &load, "`spec.objects[0].id`"),
        (&[&twice, NODES], &load, "serving/bert-a is in"),
        (&[&no_profile, NODES], &load, "no ModelProfile serving/gpt"),
        (&[FUNCTIONS], &load, "no node is given"),
        (&[NODES], &[], "no InferenceFunction is given"),
        (
            &[FUNCTIONS, NODES, NODES],
            &load,
            "node small-0 is given twice",
        ),
        (
            &[FUNCTIONS, NODES],
            &["--load", "c=1"],
            "serving/a, serving/b",
        ),
        (
            &[FUNCTIONS, "kind: PlanNodes\nnodes: [{name: a, cpus: 4}]\n"],
            &load,
            "nodes[0]",
        ),
        (
            &[
                FUNCTIONS,
                "kind: PlanNodes\nnodes: [{name: a, cpuMillis: 1, memoryBytes: 1, models: [x]}]\n",
            ],
            &load,
            "`nodes[0].models`",
        ),
        (
            &[
                FUNCTIONS,
                "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: lots}}\n",
            ],
            &load,
            "`status.allocatable.cpu`",
        ),
        (&[FUNCTIONS, NODES, "a: [1\n"], &load, "2.yaml"),
        (
            &[
                FUNCTIONS,
                NODES,
                "{\"version\": 9, \"node\": \"warm\", \"stores\": []}",
            ],
            &load,
            "version 9",
        ),
    ];
    for (files, more, says) in cases {
        let run = plan(files, more);
        assert_eq!(run.status, 2, "{says}: {}", run.err);
        assert!(
            run.err.starts_with("error: ") && run.err.contains(says),
            "{says}: {}",
            run.err
        );
        assert_eq!(run.out, "");
    }
}

#[test]
fn files_that_say_nothing_to_a_plan_are_noted() {
    let page = "{\"version\": 1, \"node\": \"gone\", \"stores\": []}";
    let run = plan(
        &[
            FUNCTIONS,
            NODES,
            "kind: Service\nmetadata: {name: x}\n",
            page,
        ],
        &["--load", "b=80"],
    );
    assert_eq!(run.status, 0);
    assert!(
        run.err.contains("note: ignored 1 of kind Service"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("ignored the inventory of node gone"),
        "{}",
        run.err
    );
}

#[test]
fn a_directory_without_documents_and_a_file_that_is_not_there_are_errors() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    let run = plan_in(dir.path(), &[]);
    assert_eq!(run.status, 2);
    assert!(
        run.err.contains("no file that ends in .yaml"),
        "{}",
        run.err
    );
    let run = plan_in(&dir.path().join("none"), &[]);
    assert_eq!(run.status, 2);
    assert!(run.err.contains("none: "), "{}", run.err);
}
