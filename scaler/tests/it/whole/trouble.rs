//! Tests with an API server that ends watches, forgets versions and fails.

use crate::whole::api::{Fault, State};
use crate::whole::world::{World, asked_for, instances};

fn lists(state: &State, resource: &str) -> usize {
    let all = state.asked.iter();
    all.filter(|entry| {
        entry.verb == "list" && entry.resource == resource && !entry.query.contains_key("continue")
    })
    .count()
}

fn watches(state: &State) -> usize {
    state
        .asked
        .iter()
        .filter(|entry| entry.verb == "watch")
        .count()
}

#[tokio::test]
async fn watches_that_end_are_taken_up_again() {
    let world = World::new().await;
    world.function("f", 150.0);
    let operator = world.operator("a");
    world.until_ready("f", 2).await;
    world
        .until_says("f", "Progressing", "False", "Steady")
        .await;

    // The watches end, and resume.
    let before = world.api.with(|state| {
        state.cuts += 1;
        let functions = lists(state, "inferencefunctions");
        (watches(state), lists(state, "pods"), functions)
    });
    world
        .until("all watches are back", |state| {
            watches(state) == before.0 + 13
        })
        .await;
    world.loads.set("f", 450.0);
    world.until_ready("f", 6).await;
    assert_eq!(world.api.with(|state| lists(state, "pods")), before.1);

    // The watches end and their version expires, together with an instance and a function whose
    // deletion they miss.
    world.function("g", 50.0);
    world.until_ready("g", 1).await;
    world.api.with(|state| {
        state.cuts += 1;
        let key = crate::whole::api::id("inferencefunctions", "blue", "g");
        state.objects.remove(&key);
        let name = instances(state, "f")[0]["metadata"]["name"].clone();
        let key = crate::whole::api::id("pods", "blue", name.as_str().unwrap());
        state.objects.remove(&key);
        state.objects.expire();
    });
    world
        .until("all is listed again", |state| {
            // All pods, those of models, and those that measure.
            lists(state, "pods") == before.1 + 3
                && lists(state, "inferencefunctions") == before.2 + 1
        })
        .await;
    world.until_ready("f", 6).await;
    world
        .until("what g owned is gone", |state| {
            instances(state, "g").is_empty()
        })
        .await;
    operator.passes_more(3).await;
    let asked = world.writes("deployments");
    let asked: Vec<(&str, u64)> = asked
        .iter()
        .map(|write| {
            (
                &write.name[..1],
                write.body["spec"]["replicas"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(asked, [("f", 2), ("f", 6), ("g", 1)]);
}

#[tokio::test]
async fn writes_that_fail_are_tried_again_and_others_go_on() {
    let world = World::new().await;
    world.api.with(|state| {
        for (name, code) in [("f-", 500), ("h-", 429)] {
            let resource = "deployments";
            state.faults.push(Fault {
                resource,
                name,
                code,
            });
        }
    });
    for name in ["f", "g", "h"] {
        world.function(name, 150.0);
    }
    let _operator = world.operator("a");
    world.until_ready("g", 2).await;
    let progress = world
        .until_says("f", "Progressing", "True", "WriteFailed")
        .await;
    let message = progress["message"].as_str().unwrap();
    let expected = "Deployment blue/f-c1500-b4-p2: the API server answered 500 InternalError: as the test wants it";
    assert_eq!(message, expected);
    world
        .until_says("h", "Progressing", "True", "WriteFailed")
        .await;
    world.loads.set("g", 250.0);
    world.until_ready("g", 3).await;
    world
        .until("it is tried again", |state| {
            let failed = state.asked.iter().filter(|entry| entry.code == 500);
            failed.count() >= 2
        })
        .await;
    world.api.with(|state| {
        assert_eq!(asked_for(state, "f"), None);
        state.faults.clear();
    });
    for name in ["f", "h"] {
        world.until_ready(name, 2).await;
        world
            .until_says(name, "Progressing", "False", "Steady")
            .await;
    }
    assert_eq!(world.started(), 7);
}
