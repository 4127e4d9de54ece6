//! Tests of a function's Deployment, and that no writes follow once it is complete.

use serde_json::{Value, json};

use crate::whole::api::id;
use crate::whole::documents::{CONFIGURATION, OBJECT, function};
use crate::whole::kubernetes::preferences;
use crate::whole::world::{World, condition, deployment, instances};

async fn world() -> World {
    let world = World::new().await;
    world.daemon("node-0", &[]).await;
    world.daemon("node-1", &[OBJECT.repeat(32)]).await;
    world.daemon("node-2", &[]).await;
    world
}

#[tokio::test]
async fn a_function_gets_its_deployment_and_then_nothing_is_written() {
    let world = world().await;
    world.function("f", 150.0);
    let operator = world.operator_with("a", &[]);
    world.until_ready("f", 2).await;
    world.until_says("f", "Ready", "True", "Serving").await;
    world
        .until_says("f", "Progressing", "False", "Steady")
        .await;
    check_deployment(&world);
    check_report(&world);
    let before = world.api.with(|state| state.writes("").len());
    for number in 0..7 {
        let pod = id("pods", "green", &format!("other-{number}"));
        let spec = json!({"spec": {"nodeName": "node-2", "containers": [{"name": "other"}]}});
        world.api.with(|state| {
            state.objects.create(&pod, spec);
        });
        operator.passes_more(1).await;
    }
    let asked = world
        .api
        .with(|state| format!("{:?}", state.writes("").split_off(before)));
    assert_eq!(asked, "[]");
}

fn check_deployment(world: &World) {
    let deployment = world.api.with(|state| deployment(state, "f")).unwrap();
    let marks = json!({"tetris.dev/function": "f", "tetris.dev/configuration": CONFIGURATION});
    assert_eq!(deployment["metadata"]["labels"], marks);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], marks);
    let owner = &deployment["metadata"]["ownerReferences"][0];
    let key = id("inferencefunctions", "blue", "f");
    let uid = world
        .api
        .with(|state| state.objects.get(&key).unwrap()["metadata"]["uid"].clone());
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&uid, &Value::Bool(true))
    );
    let pods = &deployment["spec"]["template"]["spec"];
    let container = &pods["containers"][0];
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let environment = [
        variable("TETRIS_BATCH", "4"),
        variable("TETRIS_CONCURRENCY", "2"),
        variable("TETRIS_CPU_MILLIS", "1500"),
        // A tenth of the 120 ms that a batch of 80 ms leaves of 200 ms.
        variable("TETRIS_BATCH_WAIT_MILLIS", "12"),
    ];
    assert_eq!(container["env"], json!(environment));
    let requests = json!({"cpu": "1500m", "memory": "104857600"});
    assert_eq!(container["resources"]["requests"], requests);
    let mount = json!({"name": "tetris-store", "mountPath": "/run/tetris/store", "readOnly": true});
    assert_eq!(container["volumeMounts"], json!([mount]));
    let csi = json!({"driver": "csi.tetris.dev", "readOnly": true});
    assert_eq!(
        pods["volumes"],
        json!([{"name": "tetris-store", "csi": csi}])
    );
    let preferred = preferences(&deployment["spec"]["template"]);
    let most = preferred.iter().max_by_key(|(_, weight)| **weight).unwrap();
    assert_eq!(most.0, "node-1", "it has the tensors: {preferred:?}");
    let nodes = world.api.with(|state| {
        let pods = instances(state, "f").into_iter();
        pods.map(|pod| pod["spec"]["nodeName"].clone())
            .collect::<Vec<Value>>()
    });
    assert_eq!(nodes, ["node-1", "node-1"]);
}

fn check_report(world: &World) {
    for (what, reason) in [
        ("Feasible", "Feasible"),
        ("LoadKnown", "Measured"),
        ("ProfileFound", "Found"),
    ] {
        let told = world.api.with(|state| condition(state, "f", what));
        assert_eq!(
            (&told["status"], &told["reason"]),
            (&json!("True"), &json!(reason))
        );
    }
    let key = id("inferencefunctions", "blue", "f");
    let status = world
        .api
        .with(|state| state.objects.get(&key).unwrap()["status"].clone());
    assert_eq!(
        (&status["instances"], &status["ready"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (&status["load"], &status["observedGeneration"]),
        (&json!("150"), &json!(1))
    );
    let events = world.writes("events");
    let reasons: Vec<&str> = events
        .iter()
        .map(|event| event.body["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["ScaledOut"], "nothing was wrong");
    assert_eq!(events[0].body["regarding"]["name"], "f");
    let applied = world.writes("deployments");
    assert_eq!(applied.len(), 1);
    let query = &applied[0].query;
    assert_eq!(
        (&*query["fieldManager"], &*query["force"]),
        ("tetris-scaler", "true")
    );
}

#[tokio::test]
async fn a_function_with_a_bad_field_says_so_and_others_go_on() {
    let world = World::new().await;
    let mut bad = function("bad");
    bad["spec"]["slo"]["latencyMillis"] = "soon".into();
    world.create("bad", bad);
    world.function("good", 150.0);
    let operator = world.operator("a");
    world.until_ready("good", 2).await;
    let ready = world
        .until_says("bad", "Ready", "False", "InvalidField")
        .await;
    let message = ready["message"].as_str().unwrap();
    assert!(message.contains("spec.slo.latencyMillis"), "{message}");

    world.delete("good");
    world
        .until("what it owned is gone", |state| {
            deployment(state, "good").is_none() && instances(state, "good").is_empty()
        })
        .await;
    let before = world.started();
    operator.passes_more(3).await;
    assert_eq!(world.started(), before, "nothing is made again");
    assert!(world.api.with(|state| deployment(state, "good").is_none()));

    world.loads.set("bad", 50.0);
    world.change("bad", |bad| {
        bad["spec"]["slo"]["latencyMillis"] = 200.into();
    });
    world.until_ready("bad", 1).await;
    world.until_says("bad", "Ready", "True", "Serving").await;
}
