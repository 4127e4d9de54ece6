//! Tests of instances that follow the load.

use serde_json::{Value, json};

use crate::whole::api::State;
use crate::whole::world::{World, asked_for, deployment, instances};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

#[tokio::test]
async fn instances_follow_the_load_to_zero_and_back() {
    let world = World::new().await;
    world.function("f", 150.0);
    let operator = world.operator("a");
    world.until_ready("f", 2).await;
    world.loads.set("f", 450.0);
    world.until_ready("f", 6).await;

    // Three of six are enough for 250: the idle ones go, which are not the youngest.
    let names = world.api.with(|state| names(state));
    let load = |(number, name): (usize, &String)| {
        let load = if number < 3 { 1.0 } else { 80.0 };
        (name.clone(), load)
    };
    let loads = names.iter().enumerate().map(load).collect();
    world.loads.set_pods("f", loads);
    operator.passes_more(2).await;
    world.loads.set("f", 250.0);
    world.until_ready("f", 3).await;
    assert_eq!(world.api.with(|state| names_sorted(state)), names[3..]);
    check_marks(&world, &names[..3]);

    world.loads.set("f", 0.0);
    world
        .until("there is no Deployment any more", |state| {
            deployment(state, "f").is_none() && instances(state, "f").is_empty()
        })
        .await;
    world.until_says("f", "Ready", "True", "Idle").await;
    check_deletion(&world);

    world.loads.set("f", 50.0);
    world.until_ready("f", 1).await;
    world.until_says("f", "Ready", "True", "Serving").await;
    assert_eq!(world.started(), 7, "nothing was started for nothing");
}

fn names_sorted(state: &State) -> Vec<String> {
    let mut names = names(state);
    names.sort();
    names
}

fn names(state: &State) -> Vec<String> {
    let pods = instances(state, "f").into_iter();
    pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Checks that exactly these pods were marked, before their number fell.
fn check_marks(world: &World, released: &[String]) {
    world.api.with(|state| {
        assert_eq!(asked_for(state, "f"), Some(3));
        let falls = state.asked.iter().position(|entry| {
            entry.resource == "deployments"
                && entry.is_write()
                && entry.body["spec"]["replicas"] == 3
        });
        let (before, after) = state.asked.split_at(falls.unwrap());
        // Gates are opened by other writes.
        let is_mark = |one: &&crate::whole::api::Asked| {
            one.resource == "pods" && one.body["metadata"]["annotations"].is_object()
        };
        let mut marked: Vec<&String> = before
            .iter()
            .filter(is_mark)
            .map(|before| {
                assert_eq!(before.body["metadata"]["annotations"][COST], "-100");
                &before.name
            })
            .collect();
        marked.sort();
        assert_eq!(marked, released.iter().collect::<Vec<_>>());
        assert_eq!(after.iter().filter(is_mark).count(), 0);
    });
}

/// Checks that the Deployment was scaled to zero, and deleted once empty, on the condition of its
/// last version.
fn check_deletion(world: &World) {
    let all = world.writes("deployments");
    let deleted = all.iter().position(|write| write.verb == "delete").unwrap();
    let scaled = &all[deleted - 1];
    assert_eq!(scaled.body["spec"], json!({"replicas": 0}));
    assert_eq!(all[deleted].code, 200, "it was not tried too early");
    let conditions = &all[deleted].body["preconditions"];
    assert!(conditions["uid"].is_string() && conditions["resourceVersion"].is_string());
    assert_ne!(conditions["resourceVersion"], Value::Null);
}
