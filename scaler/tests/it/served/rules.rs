//! Tests of the definitions' rules: each accepts a valid object, and refuses an invalid one.

use std::collections::BTreeSet;

use kube_cel::Validator;
use serde_json::{Value, json};
use tetris_scaler::resources::crds;

type Spoil = fn(&mut Value);

/// Messages of rules, each with an edit that breaks the rule.
const FUNCTION: [(&str, Spoil); 14] = [
    ("at most 63 characters", |it| {
        it["metadata"]["name"] = "n".repeat(64).into();
    }),
    ("minInstances must not exceed maxInstances", |it| {
        it["spec"]["maxInstances"] = 6.into();
    }),
    ("exactly one of prometheus, static and gateway", |it| {
        it["spec"]["load"]["prometheus"] = json!({"query": "q"});
    }),
    ("exactly one of prometheus, static and gateway", |it| {
        it["spec"]["load"]["gateway"] = json!({});
    }),
    ("exactly one of prometheus, static and gateway", |it| {
        it["spec"]["load"] = json!({});
    }),
    ("keepPercent must exceed scaleOutPercent", |it| {
        it["spec"]["scaleIn"]["keepPercent"] = 5.into();
    }),
    ("maxSurge and maxUnavailable must not both be 0", |it| {
        it["spec"]["rollout"] = json!({"maxSurge": "0%", "maxUnavailable": 0});
    }),
    ("maxSurge and maxUnavailable must not both be 0", |it| {
        it["spec"]["rollout"] = json!({"maxSurge": 0, "maxUnavailable": "0%"});
    }),
    ("a function has a template or an engine", |it| {
        it["spec"]["engine"] = json!({});
        it["spec"]["model"] = "m".into();
    }),
    ("a function has a template or an engine", |it| {
        it["spec"].as_object_mut().unwrap().remove("template");
    }),
    ("engine needs model", |it| {
        it["spec"].as_object_mut().unwrap().remove("template");
        it["spec"]["engine"] = json!({});
    }),
    ("name the profile", |it| {
        it["spec"].as_object_mut().unwrap().remove("profile");
        it["spec"]["gpu"] = json!({"runtimeClass": "nvidia"});
    }),
    ("more than 128 configurations", |it| {
        let numbers: Vec<u32> = (1..=16).collect();
        it["spec"]["profiling"] = json!({"cpus": numbers, "batch": numbers, "minutes": 10});
    }),
    ("scaling cannot be changed", |it| {
        it["spec"]["scaling"] = "External".into();
    }),
];

const PROFILE: [(&str, Spoil); 5] = [
    ("a configuration has gpuType and gpu, or neither", |it| {
        it["spec"]["configurations"][0]["gpuType"] = "Tesla T4".into();
    }),
    ("a configuration has gpuType and gpu, or neither", |it| {
        let gpu = json!({"ownBytes": 1});
        it["spec"]["configurations"][0]["gpu"] = gpu;
    }),
    ("must not descend", |it| latencies(it)["p50"] = 21.into()),
    ("must not descend", |it| latencies(it)["p90"] = 31.into()),
    ("must not descend", |it| latencies(it)["p95"] = 31.into()),
];

fn latencies(profile: &mut Value) -> &mut Value {
    &mut profile["spec"]["configurations"][0]["latencyMicros"]
}

/// Returns a function as the API server stores it, with defaults.
fn function() -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": "n".repeat(63)},
        "spec": {
            "profile": "m",
            "slo": {"latencyMillis": 200, "percentile": 95},
            "template": {"spec": {"containers": [{"name": "main", "image": "server"}]}},
            "load": {"static": {"requestsPerSecond": 1.0}},
            "minInstances": 7, "maxInstances": 7,
            "scaling": "Operator",
            "rollout": {"maxSurge": 0, "maxUnavailable": "25%"},
            "scaleIn": {"windowSeconds": 300, "keepPercent": 6, "scaleOutPercent": 5, "maxReleases": 100},
            "alphaBytesPerMillicore": 0,
        },
    })
}

fn profile() -> Value {
    let latencies = json!({"p50": 20, "p90": 20, "p95": 30, "p99": 30});
    let configuration = json!({
        "cpuMillis": 1000, "batch": 1, "concurrency": 1, "ownBytes": 1, "latencyMicros": latencies,
    });
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile", "metadata": {"name": "m"},
        "spec": {"model": "m", "configurations": [configuration], "objects": [], "unlistedBytes": 0},
    })
}

#[test]
fn every_rule_takes_what_is_right_and_refuses_what_is_not() {
    let schemas = crds().map(|crd| {
        let crd = serde_json::to_value(crd).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    });
    let cases = [(function(), &FUNCTION[..]), (profile(), &PROFILE[..])];
    for (schema, (good, cases)) in schemas.iter().zip(cases) {
        let verdict = |object: &Value| {
            let result = Validator::new().validate(schema, object, Some(&good));
            result.map_err(|errors| errors.to_string())
        };
        assert_eq!(verdict(&good), Ok(()));
        let mut left = messages(schema);
        for (message, spoil) in cases {
            let mut bad = good.clone();
            spoil(&mut bad);
            let error = verdict(&bad).unwrap_err();
            assert!(error.contains(message), "{error}, expected {message}");
            left.retain(|rule| !rule.contains(message));
        }
        assert_eq!(left, BTreeSet::new(), "rules that were not broken");
    }
}

fn messages(schema: &Value) -> BTreeSet<String> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let given = rules.into_iter().flatten();
    let mut all: BTreeSet<String> = given
        .map(|rule| rule["message"].as_str().unwrap().to_owned())
        .collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let below = properties.map(|(_, property)| property);
    for inner in below.chain(schema.get("items")) {
        all.extend(messages(inner));
    }
    all
}
