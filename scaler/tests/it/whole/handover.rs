//! Tests that one replica acts at a time, through crashes and handovers.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tetris_scaler::keda::METRIC;
use tetris_scaler::keda::wire::{GetMetricsRequest, GetMetricsResponse, ScaledObjectRef};
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::whole::api::{State, id};
use crate::whole::documents::{CONFIGURATION, function};
use crate::whole::operator::{LEASE, Operator};
use crate::whole::world::{World, asked_for};

fn lease(state: &State) -> Value {
    let lease = state
        .objects
        .get(&id("leases", "tetris-system", "tetris-scaler"));
    lease.map_or(Value::Null, |lease| lease["spec"].clone())
}

async fn until_leads(world: &World, name: &str, transitions: u64) {
    let what = format!("{name} leads");
    world
        .until(&what, |state| {
            let lease = lease(state);
            let holder = lease["holderIdentity"].as_str().unwrap_or_default();
            holder.starts_with(&format!("{name}_")) && lease["leaseTransitions"] == transitions
        })
        .await;
}

#[tokio::test]
async fn a_replica_that_is_killed_starts_again_without_harm() {
    let world = World::new().await;
    world.api.with(|state| state.holds_pods = true);
    let mut slow = function("f");
    // Longer than the lease: the window must begin with the process.
    let window = LEASE + 5;
    slow["spec"]["scaleIn"]["windowSeconds"] = window.into();
    world.loads.set("f", 450.0);
    world.create("f", slow);
    let mut first = world.operator("a");
    world
        .until("six are asked for", |state| {
            asked_for(state, "f") == Some(6)
        })
        .await;
    first.kill();
    world.api.with(|state| state.holds_pods = false);
    world.loads.set("f", 150.0);

    let mut second = world.operator("a");
    until_leads(&world, "a", 2).await;
    assert!(second.since.elapsed() >= Duration::from_secs(LEASE));
    world.until_ready("f", 2).await;
    assert!(second.since.elapsed() >= Duration::from_secs(window));
    assert_eq!(world.started(), 6, "nothing was started twice");

    assert!(second.terminate().await.success());
    let holder = world
        .api
        .with(|state| lease(state)["holderIdentity"].clone());
    assert_eq!(holder, "", "nobody has to wait");
    let _third = world.operator("c");
    until_leads(&world, "c", 3).await;
}

#[tokio::test]
async fn of_two_replicas_one_acts_and_both_answer() {
    let world = World::new().await;
    world.function("f", 150.0);
    let mut external = function("x");
    external["spec"]["scaling"] = "External".into();
    world.loads.set("x", 250.0);
    world.create("x", external);
    let mut first = world.operator("a");
    until_leads(&world, "a", 1).await;
    let second = world.operator("b");
    world.until_ready("f", 2).await;
    second.passes_more(3).await;
    assert_eq!((value(&first).await, value(&second).await), (3, 3));
    assert!(world.api.with(|state| state.writes("b").is_empty()));
    assert_eq!(second.metric("tetris_scaler_leader").await, 0);

    first.kill();
    world.loads.set("f", 450.0);
    until_leads(&world, "b", 2).await;
    world.until_ready("f", 6).await;
    assert_eq!(world.started(), 6, "nothing was started twice");
    assert!(world.api.with(|state| !state.writes("b").is_empty()));
}

/// Returns the number of instances that KEDA gets for the function `x`.
async fn value(operator: &Operator) -> i64 {
    let endpoint = Endpoint::from_shared(format!("http://{}", operator.keda)).unwrap();
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    client.ready().await.unwrap();
    let names = [("function", "x"), ("configuration", CONFIGURATION)];
    let names = names.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = GetMetricsRequest {
        scaled_object_ref: Some(ScaledObjectRef {
            name: "x".to_owned(),
            namespace: "blue".to_owned(),
            scaler_metadata: HashMap::from(names),
        }),
        metric_name: METRIC.to_owned(),
    };
    let codec: ProstCodec<GetMetricsRequest, GetMetricsResponse> = ProstCodec::default();
    let path = "/externalscaler.ExternalScaler/GetMetrics";
    let path = path.parse().unwrap();
    let answer = client
        .unary(tonic::Request::new(request), path, codec)
        .await;
    answer.unwrap().into_inner().metric_values[0].metric_value
}
