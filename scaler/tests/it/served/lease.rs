//! Tests of leader election.

use std::time::Duration;

use serde_json::{Value, json};
use tetris_scaler::lease::{Elector, LeaseError, Names, Timing};
use tokio::time::{advance, sleep};

use crate::served::api::Api;
use tetris_test_support::heap;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/tetris-system/leases/tetris-scaler";

/// With the lease as the manifests have it.
fn api() -> Api {
    let api = Api::default();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "tetris-scaler", "namespace": "tetris-system"},
    });
    api.with(|state| state.store(PATH, lease));
    api
}

fn elector(api: &Api, identity: &str) -> Elector {
    let names = Names {
        namespace: "tetris-system".to_owned(),
        name: "tetris-scaler".to_owned(),
        identity: identity.to_owned(),
    };
    Elector::new(api.client(), names, Timing::try_new(15).unwrap())
}

fn holder(api: &Api) -> Value {
    api.with(|state| state.objects[PATH]["spec"]["holderIdentity"].clone())
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_others_take_over_only_after_it_stopped() {
    let api = api();
    let (mut a, mut b) = (elector(&api, "a"), elector(&api, "b"));
    a.ask().await.unwrap();
    b.ask().await.unwrap();
    assert!(a.leadership().leads() && !b.leadership().leads());
    assert_eq!(holder(&api), "a");
    // It renews, and no other replica gets the lease.
    for _ in 0..20 {
        advance(Duration::from_secs(3)).await;
        a.ask().await.unwrap();
        b.ask().await.unwrap();
        assert!(a.leadership().leads() && !b.leadership().leads());
    }
    // It is cut off, and stops by itself before another may begin.
    for _ in 0..15 {
        advance(Duration::from_secs(1)).await;
        b.ask().await.unwrap();
        assert!(!(a.leadership().leads() && b.leadership().leads()));
    }
    assert!(!a.leadership().leads() && b.leadership().leads());
    let spec = api.with(|state| state.objects[PATH]["spec"].clone());
    assert_eq!(spec["leaseTransitions"], 2);
    // After it is back, it finds the other leading.
    a.ask().await.unwrap();
    assert!(!a.leadership().leads() && b.leadership().leads());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let api = api();
    let (mut a, mut b) = (elector(&api, "a"), elector(&api, "b"));
    a.ask().await.unwrap();
    b.ask().await.unwrap();
    a.release().await.unwrap();
    assert!(!a.leadership().leads());
    b.ask().await.unwrap();
    assert!(b.leadership().leads());
    // A replica does not release another's lease.
    a.release().await.unwrap();
    assert_eq!(holder(&api), "b");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_write_at_once_one_leads() {
    let api = api();
    let (mut a, mut b) = (elector(&api, "a"), elector(&api, "b"));
    let old = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "tetris-scaler", "namespace": "tetris-system"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 1},
    });
    api.with(|state| state.store(PATH, old));
    a.ask().await.unwrap();
    b.ask().await.unwrap();
    advance(Duration::from_secs(2)).await;
    let (first, second) = tokio::join!(a.ask(), b.ask());
    first.unwrap();
    second.unwrap();
    assert!(a.leadership().leads() != b.leadership().leads());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_ends_leadership_in_time() {
    let api = api();
    let mut a = elector(&api, "a");
    a.ask().await.unwrap();
    api.with(|state| state.fails_with = Some(500));
    let error = a.ask().await.unwrap_err();
    assert!(
        error.to_string().contains("tetris-system/tetris-scaler"),
        "{error}"
    );
    assert!(a.leadership().leads(), "the lease is still its own");
    advance(Duration::from_secs(10)).await;
    assert!(!a.leadership().leads());
    assert!(Timing::try_new(2).is_err());
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_an_api_server_has_no_leader_and_one_within_a_period_after_it() {
    let api = api();
    let mut a = elector(&api, "a");
    let leadership = a.leadership();
    let timing = Timing::try_new(15).unwrap();
    let outage = async {
        sleep(timing.period()).await;
        assert!(leadership.leads());
        api.with(|state| state.fails_with = Some(503));
        let asked = api.with(|state| state.asked.len());
        sleep(timing.duration()).await;
        let bytes_before = heap::held();
        for _ in 0..3_600 {
            sleep(Duration::from_secs(1)).await;
            assert!(!leadership.leads(), "others may hold the lease");
        }
        // The simulated server keeps each request.
        let asked = api.with(|state| state.asked.drain(asked..).count());
        assert!((1_200..=1_600).contains(&asked), "{asked} requests");
        let grown = heap::held() - bytes_before;
        assert!(grown <= 512 << 10, "{grown} bytes more than at its begin");
        api.with(|state| state.fails_with = None);
        sleep(timing.period()).await;
        assert!(leadership.leads(), "it is back");
    };
    a.run(outage, |error| {
        assert!(error.to_string().contains("tetris-scaler"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_nobody_leads_and_none_is_created() {
    let api = Api::default();
    let mut a = elector(&api, "a");
    let error = a.ask().await.unwrap_err();
    assert!(matches!(error, LeaseError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("apply the scaler's manifests"));
    assert!(!a.leadership().leads());
    api.with(|state| assert!(state.asked.iter().all(|asked| asked.0 == "GET")));
}
