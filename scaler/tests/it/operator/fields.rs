//! Tests that bad input in any field gives an error that names the field.

use serde_json::{Value, json};
use tetris_scaler::operator::records::{FunctionRecord, ProfileRecord};
use tetris_scaler_core::Rate;

use crate::operator::world::{function, object, profile};

fn full_function() -> Value {
    let mut full = function("f", "m");
    full["spec"]["container"] = json!("main");
    full["spec"]["minInstances"] = json!(1);
    full["spec"]["maxInstances"] = json!(9);
    full["spec"]["configurations"] = json!(["c1000-b1-p1"]);
    full["spec"]["scaling"] = json!("Operator");
    full["spec"]["store"] = json!("shared");
    full["spec"]["alphaBytesPerMillicore"] = json!(10);
    full["spec"]["load"]["prometheus"]["perPodQuery"] = json!("rate(requests[1m])");
    full["spec"]["load"]["prometheus"]["latencyQuery"] = json!("histogram_quantile(0.99, x)");
    full["spec"]["slo"]["percentile"] = json!(99);
    full["spec"]["rollout"] = json!({"maxSurge": 0, "maxUnavailable": "10%"});
    full["spec"]["scaleIn"] =
        json!({"windowSeconds": 60, "keepPercent": 30, "scaleOutPercent": 10, "maxReleases": 3});
    full
}

/// Returns `value` with `new` at `path`; null removes the field.
fn with(value: &Value, path: &str, new: &Value) -> Value {
    let mut value = value.clone();
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match key.parse::<usize>() {
        Ok(index) => parent[index] = new.clone(),
        Err(_) if new.is_null() => drop(parent.as_object_mut().unwrap().remove(key)),
        Err(_) => parent[key] = new.clone(),
    }
    value
}

#[test]
fn every_field_of_a_function() {
    let full = full_function();
    assert_eq!(
        FunctionRecord::read(object(&full)).function.map(|_| ()),
        Ok(())
    );
    let variables = json!([{"name": "TETRIS_BATCH", "value": "1"}]);
    let cases = [
        ("/metadata/name", json!("x".repeat(64)), "metadata.name"),
        ("/spec/rollout/maxSurge", json!(-1), "spec.rollout.maxSurge"),
        (
            "/spec/rollout/maxSurge",
            json!("1"),
            "spec.rollout.maxSurge",
        ),
        (
            "/spec/rollout/maxSurge",
            json!("+1%"),
            "spec.rollout.maxSurge",
        ),
        ("/spec/rollout/maxSurge", json!([]), "spec.rollout.maxSurge"),
        (
            "/spec/rollout/maxUnavailable",
            json!("101%"),
            "spec.rollout.maxUnavailable",
        ),
        (
            "/spec/rollout/maxUnavailable",
            json!("0%"),
            "spec.rollout.maxUnavailable",
        ),
        ("/spec", Value::Null, "."),
        ("/spec/profile", json!(""), "spec.profile"),
        ("/spec/profile", json!(7), "spec.profile"),
        ("/spec/template", Value::Null, "spec.template"),
        ("/spec/engine", json!({}), "spec.engine"),
        ("/spec/engine", json!({"tag": "1"}), "spec.engine.tag"),
        (
            "/spec/slo/latencyMillis",
            json!(0),
            "spec.slo.latencyMillis",
        ),
        (
            "/spec/slo/latencyMillis",
            json!(-1),
            "spec.slo.latencyMillis",
        ),
        (
            "/spec/slo/latencyMillis",
            json!(7_200_001),
            "spec.slo.latencyMillis",
        ),
        (
            "/spec/slo/latencyMillis",
            json!("1"),
            "spec.slo.latencyMillis",
        ),
        ("/spec/slo/percentile", json!(42), "spec.slo.percentile"),
        ("/spec/slo/other", json!(1), "spec.slo.other"),
        ("/spec/template", json!([]), "spec.template"),
        (
            "/spec/template/spec",
            Value::Null,
            "spec.template.spec.containers",
        ),
        (
            "/spec/template/spec/containers",
            json!([]),
            "spec.template.spec.containers",
        ),
        (
            "/spec/template/spec/containers/0/name",
            json!(7),
            "spec.template.spec.containers[0].name",
        ),
        (
            "/spec/template/spec/containers/0/env",
            variables,
            "spec.template.spec.containers[0].env[0].name",
        ),
        (
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            "spec.template.spec.restartPolicy",
        ),
        (
            "/spec/template/metadata",
            json!({"labels": 7}),
            "spec.template.metadata.labels",
        ),
        ("/spec/container", json!("other"), "spec.container"),
        ("/spec/load", json!({}), "spec.load"),
        (
            "/spec/load/static",
            json!({"requestsPerSecond": 1.0}),
            "spec.load",
        ),
        (
            "/spec/load",
            json!({"static": {"requestsPerSecond": -1.0}}),
            "spec.load.static.requestsPerSecond",
        ),
        (
            "/spec/load",
            json!({"static": {"requestsPerSecond": 1e10}}),
            "spec.load.static.requestsPerSecond",
        ),
        ("/spec/load", json!({"static": {}}), "spec.load.static"),
        ("/spec/load/gateway", json!({}), "spec.load"),
        (
            "/spec/load",
            json!({"gateway": {"query": "q"}}),
            "spec.load.gateway.query",
        ),
        (
            "/spec/load/prometheus/query",
            json!(""),
            "spec.load.prometheus.query",
        ),
        (
            "/spec/load/prometheus/perPodQuery",
            json!("x".repeat(4_097)),
            "spec.load.prometheus.perPodQuery",
        ),
        ("/spec/minInstances", json!(10), "spec.minInstances"),
        ("/spec/minInstances", json!(-1), "spec.minInstances"),
        ("/spec/maxInstances", json!(0), "spec.maxInstances"),
        ("/spec/maxInstances", json!(20_001), "spec.maxInstances"),
        ("/spec/configurations", json!([]), "spec.configurations"),
        ("/spec/configurations/0", json!(7), "spec.configurations[0]"),
        ("/spec/scaling", json!("Both"), "spec.scaling"),
        (
            "/spec/scaleIn/windowSeconds",
            json!(0),
            "spec.scaleIn.windowSeconds",
        ),
        (
            "/spec/scaleIn/windowSeconds",
            json!(604_801),
            "spec.scaleIn.windowSeconds",
        ),
        (
            "/spec/scaleIn/keepPercent",
            json!(10),
            "spec.scaleIn.keepPercent",
        ),
        (
            "/spec/scaleIn/keepPercent",
            json!(901),
            "spec.scaleIn.keepPercent",
        ),
        (
            "/spec/scaleIn/scaleOutPercent",
            json!(901),
            "spec.scaleIn.scaleOutPercent",
        ),
        (
            "/spec/scaleIn/maxReleases",
            json!(0),
            "spec.scaleIn.maxReleases",
        ),
        ("/spec/store", json!(""), "spec.store"),
        (
            "/spec/alphaBytesPerMillicore",
            json!(1_u64 << 41),
            "spec.alphaBytesPerMillicore",
        ),
        ("/spec/unknown", json!(1), "spec.unknown"),
    ];
    for (path, value, field) in cases {
        let bad = with(&full, path, &value);
        let error = FunctionRecord::read(object(&bad)).function.unwrap_err();
        assert_eq!(error.field, field, "{path} {value}: {error}");
        assert!(!error.problem.is_empty());
    }
}

#[test]
fn every_field_of_a_profile() {
    let mut full = profile("m");
    full["spec"]["unlistedBytes"] = json!(5);
    full["spec"]["manifests"] = json!(["manifest"]);
    full["spec"]["measured"] = json!({
        "at": "2026-01-01T00:00:00Z", "machine": "x", "cpus": 2, "memoryBytes": 5, "command": ["serve"], "requests": 9,
    });
    assert_eq!(
        ProfileRecord::read(&object(&full)).profile.map(|_| ()),
        Ok(())
    );
    let same = full["spec"]["configurations"][0].clone();
    let twice = json!([{"id": "ab".repeat(32), "bytes": 1}, {"id": "ab".repeat(32), "bytes": 2}]);
    let many: Vec<Value> = (0..8_193)
        .map(|n| json!({"id": format!("{n:064x}"), "bytes": 1}))
        .collect();
    let at = |field: &str| format!("spec.configurations[1].{field}");
    let cases = [
        ("/spec/model", json!(""), "spec.model".to_owned()),
        ("/spec/model", json!(7), "spec.model".to_owned()),
        (
            "/spec/configurations",
            json!([]),
            "spec.configurations".to_owned(),
        ),
        (
            "/spec/configurations/1",
            same,
            "spec.configurations[1]".to_owned(),
        ),
        (
            "/spec/configurations/1/cpuMillis",
            json!(0),
            at("cpuMillis"),
        ),
        ("/spec/configurations/1/batch", json!(4_097), at("batch")),
        (
            "/spec/configurations/1/concurrency",
            json!(0),
            at("concurrency"),
        ),
        ("/spec/configurations/1/ownBytes", json!(0), at("ownBytes")),
        (
            "/spec/configurations/1/latencyMicros/p50",
            json!(0),
            at("latencyMicros.p50"),
        ),
        (
            "/spec/configurations/1/latencyMicros/p90",
            json!(1),
            at("latencyMicros.p90"),
        ),
        (
            "/spec/configurations/1/latencyMicros/p95",
            json!(1),
            at("latencyMicros.p95"),
        ),
        (
            "/spec/configurations/1/latencyMicros/p99",
            json!(3_600_000_001_u64),
            at("latencyMicros.p99"),
        ),
        ("/spec/configurations/1/other", json!(1), at("other")),
        (
            "/spec/objects/0/id",
            json!("zz"),
            "spec.objects[0].id".to_owned(),
        ),
        (
            "/spec/objects/0/bytes",
            json!(0),
            "spec.objects[0].bytes".to_owned(),
        ),
        ("/spec/objects", twice, "spec.objects".to_owned()),
        ("/spec/objects", json!(many), "spec.objects".to_owned()),
        (
            "/spec/unlistedBytes",
            json!(1_u64 << 51),
            "spec.unlistedBytes".to_owned(),
        ),
        (
            "/spec/unlistedBytes",
            json!(-1),
            "spec.unlistedBytes".to_owned(),
        ),
        (
            "/spec/manifests/0",
            json!(7),
            "spec.manifests[0]".to_owned(),
        ),
        ("/spec/measured/at", json!(7), "spec.measured.at".to_owned()),
        (
            "/spec/measured/machine",
            json!(7),
            "spec.measured.machine".to_owned(),
        ),
        (
            "/spec/measured/cpus",
            json!("many"),
            "spec.measured.cpus".to_owned(),
        ),
        (
            "/spec/measured/memoryBytes",
            json!(-1),
            "spec.measured.memoryBytes".to_owned(),
        ),
        (
            "/spec/measured/command/0",
            json!(7),
            "spec.measured.command[0]".to_owned(),
        ),
        (
            "/spec/measured/requests",
            json!(-1),
            "spec.measured.requests".to_owned(),
        ),
    ];
    for (path, value, field) in cases {
        let bad = with(&full, path, &value);
        let error = ProfileRecord::read(&object(&bad)).profile.unwrap_err();
        assert_eq!(error.field, field, "{path}: {error}");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let record = FunctionRecord::read(object(&function("f", "m")));
    let checked = record.function.unwrap();
    assert_eq!((checked.min_instances, checked.max_instances), (0, 100));
    assert_eq!(checked.store, "blue");
    assert_eq!(checked.slo.us(), 200_000);
    assert_eq!(
        checked.rollout.strategy(),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(
        checked.scale_in.needed(Rate::from_rps(10)),
        Rate::from_rps(12)
    );
}

#[test]
fn every_field_of_a_gpu() {
    let mut full = full_function();
    full["spec"]["gpu"] = json!({"type": "Tesla T4", "ownBytes": 5, "runtimeClass": "nvidia"});
    assert!(FunctionRecord::read(object(&full)).function.is_ok());
    let claim = json!({"limits": {"nvidia.com/gpu": 1}});
    let visible = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    for (path, new, field) in [
        ("/spec/gpu/type", json!(""), "spec.gpu.type"),
        ("/spec/gpu/type", json!("x".repeat(64)), "spec.gpu.type"),
        ("/spec/gpu/ownBytes", json!(u64::MAX), "spec.gpu.ownBytes"),
        ("/spec/gpu/runtimeClass", json!(""), "spec.gpu.runtimeClass"),
        ("/spec/gpu/count", json!(2), "spec.gpu.count"),
        (
            "/spec/template/spec/containers/0/resources",
            claim,
            "spec.template.spec.containers[0].resources.limits",
        ),
        (
            "/spec/template/spec/containers/0/env",
            visible,
            "spec.template.spec.containers[0].env[0].name",
        ),
    ] {
        let read = FunctionRecord::read(object(&with(&full, path, &new)));
        let problem = read.function.map(|_| ()).unwrap_err().to_string();
        assert!(problem.contains(field), "{path}: {problem}");
    }
    let mut measured = profile("m");
    measured["spec"]["gpus"] = json!([{"type": "Tesla T4", "bytes": 5, "micros": 6}]);
    let configuration = &mut measured["spec"]["configurations"][0];
    configuration["gpuType"] = json!("Tesla T4");
    configuration["gpu"] = json!({"ownBytes": 5, "inferenceMicros": 6});
    let read = |value: &Value| {
        ProfileRecord::read(&object(value))
            .profile
            .clone()
            .map(|_| ())
    };
    assert_eq!(read(&measured), Ok(()));
    let twice = json!([measured["spec"]["gpus"][0], measured["spec"]["gpus"][0]]);
    let mut similar = measured["spec"]["configurations"][0].clone();
    similar["gpuType"] = json!("tesla-t4");
    for (path, new, field) in [
        ("/spec/gpus/0/type", json!(""), "spec.gpus[0].type"),
        ("/spec/gpus/0/bytes", json!(0), "spec.gpus[0].bytes"),
        ("/spec/gpus/0/micros", json!(0), "spec.gpus[0].micros"),
        ("/spec/gpus", twice, "spec.gpus[1].type"),
        (
            "/spec/configurations/0/gpuType",
            json!("\n"),
            "spec.configurations[0].gpuType",
        ),
        (
            "/spec/configurations/0/gpuType",
            Value::Null,
            "spec.configurations[0].gpuType",
        ),
        (
            "/spec/configurations/0/gpu",
            Value::Null,
            "spec.configurations[0].gpu",
        ),
        (
            "/spec/configurations/0/gpu/ownBytes",
            json!(u64::MAX),
            "spec.configurations[0].gpu.ownBytes",
        ),
        (
            "/spec/configurations/0/gpu/inferenceMicros",
            json!(0),
            "spec.configurations[0].gpu.inferenceMicros",
        ),
        (
            "/spec/configurations/1",
            similar,
            "spec.configurations[1].gpuType",
        ),
    ] {
        let problem = read(&with(&measured, path, &new)).unwrap_err().to_string();
        assert!(problem.contains(field), "{path}: {problem}");
    }
}
