//! Tests of functions whose load gateways count.

use std::time::Instant;

use serde_json::Value;

use crate::whole::api::State;
use crate::whole::gateways::Function;
use crate::whole::world::{World, asked_for, deployment, instances, until};

fn rps(rps: f64) -> Function {
    Function {
        rps,
        ..Function::default()
    }
}

/// Waits until a function is known to have no load, and has no instance.
async fn until_idle(world: &World, function: &str) {
    world
        .until_says(function, "LoadKnown", "True", "Measured")
        .await;
    world.until_says(function, "Ready", "True", "Idle").await;
    world
        .api
        .with(|state| assert!(deployment(state, function).is_none()));
}

fn names(state: &State) -> Vec<String> {
    let pods = instances(state, "f").into_iter();
    let mut names: Vec<String> = pods
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// No pass is due within the test: passes come every ten minutes, and nothing else changes, not even the
/// load. So the one that starts an instance is due to the request that waits.
#[tokio::test]
async fn a_request_that_waits_starts_an_instance_from_zero_at_once() {
    let world = World::new().await;
    let gateways = [
        world.gateway("gateway-a").await,
        world.gateway("gateway-b").await,
    ];
    for gateway in &gateways {
        gateway.set("f", rps(0.0));
    }
    world.counted_function("f");
    let _operator = world.operator_with("a", &["--interval-seconds=600", "--poll-seconds=60"]);
    until_idle(&world, "f").await;
    let before = world.writes("deployments").len();
    assert_eq!((before, gateways[1].waiting_pages()), (0, 0));
    let waits = Function {
        waiting: 1,
        ..Function::default()
    };
    gateways[1].set("f", waits);
    let since = Instant::now();
    until("one instance is asked for", || {
        world.api.with(|state| asked_for(state, "f") == Some(1))
    })
    .await;
    let (took, pages) = (since.elapsed(), gateways[1].waiting_pages());
    println!(
        "from zero: replicas written {} ms after the request waits",
        took.as_millis()
    );
    assert!(pages >= 1, "the page came first");
    let writes = world.writes("deployments");
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(writes[0].body["spec"]["replicas"], 1);
    world.until_ready("f", 1).await;
}

#[tokio::test]
async fn instances_follow_the_gateways_to_zero_and_back() {
    let world = World::new().await;
    let gateways = [
        world.gateway("gateway-a").await,
        world.gateway("gateway-b").await,
    ];
    let set = |rps: f64, in_flight: u64| {
        for gateway in &gateways {
            let load = Function {
                rps: rps / 2.0,
                in_flight,
                ..Function::default()
            };
            gateway.set("f", load);
        }
    };
    set(150.0, 0);
    world.counted_function("f");
    let operator = world.operator("a");
    world.until_ready("f", 2).await;
    world.until_says("f", "LoadKnown", "True", "Measured").await;
    assert_eq!(operator.metric("tetris_scaler_gateways_answering").await, 2);

    // A request in service keeps its instance, also after a window without a load.
    set(0.0, 1);
    world.until_ready("f", 1).await;
    operator.passes_more(16).await;
    assert_eq!(world.api.with(|state| asked_for(state, "f")), Some(1));
    set(0.0, 0);
    world
        .until("there is no Deployment any more", |state| {
            deployment(state, "f").is_none() && instances(state, "f").is_empty()
        })
        .await;
    world.until_says("f", "Ready", "True", "Idle").await;
    assert_eq!(world.started(), 2, "nothing was started for nothing");
}

#[tokio::test]
async fn instances_with_the_fewest_outstanding_requests_are_released_first() {
    let world = World::new().await;
    let gateways = [
        world.gateway("gateway-a").await,
        world.gateway("gateway-b").await,
    ];
    let set_all = |load: Function| {
        for gateway in &gateways {
            gateway.set("f", load.clone());
        }
    };
    set_all(rps(225.0));
    world.counted_function("f");
    let operator = world.operator("a");
    world.until_ready("f", 6).await;
    let all = world.api.with(|state| names(state));
    // Those that were made first are idle, and are not the youngest.
    let outstanding = |(number, name): (usize, &String)| {
        let count = if number < 3 { 0 } else { 4 };
        (name.clone(), count)
    };
    let outstanding: Vec<(String, u64)> = all.iter().enumerate().map(outstanding).collect();
    set_all(Function {
        outstanding: outstanding.clone(),
        ..rps(225.0)
    });
    operator.passes_more(2).await;
    set_all(Function {
        outstanding,
        ..rps(125.0)
    });
    world.until_ready("f", 3).await;
    assert_eq!(world.api.with(|state| names(state)), all[3..]);
}

#[tokio::test]
async fn a_silent_gateway_makes_the_load_unknown_and_requests_at_another_start_an_instance() {
    let world = World::new().await;
    let (a, b) = (
        world.gateway("gateway-a").await,
        world.gateway("gateway-b").await,
    );
    for gateway in [&a, &b] {
        gateway.set("f", rps(75.0));
        gateway.set("g", rps(0.0));
    }
    for name in ["f", "g"] {
        world.counted_function(name);
    }
    let operator = world.operator("a");
    world.until_ready("f", 2).await;
    until_idle(&world, "g").await;
    b.silence(true);
    let said = world
        .until_says("f", "LoadKnown", "Unknown", "GatewaySilent")
        .await;
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("gateway gateway-b at"), "{message}");
    a.set("f", rps(0.0));
    a.set(
        "g",
        Function {
            waiting: 1,
            ..Function::default()
        },
    );
    world.until_ready("g", 1).await;
    operator.passes_more(12).await;
    let asked = world.api.with(|state| asked_for(state, "f"));
    assert_eq!(asked, Some(2), "nothing is released");
    a.set("g", rps(0.0));
    b.set("f", rps(0.0));
    b.silence(false);
    for name in ["f", "g"] {
        world
            .until("nothing is left", |state| deployment(state, name).is_none())
            .await;
    }
}

#[tokio::test]
async fn without_a_gateway_a_load_is_unknown_and_says_so() {
    let world = World::new().await;
    world.counted_function("f");
    let _operator = world.operator("a");
    let said = world
        .until_says("f", "LoadKnown", "Unknown", "NoGateway")
        .await;
    assert_ne!(said["message"], Value::Null);
    let gateway = world.gateway("gateway-a").await;
    world
        .until_says("f", "LoadKnown", "Unknown", "NotListed")
        .await;
    gateway.set("f", rps(50.0));
    world.until_ready("f", 1).await;
    world.until_says("f", "LoadKnown", "True", "Measured").await;
}
