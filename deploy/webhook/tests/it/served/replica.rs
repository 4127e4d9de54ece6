//! A replica with a clock that the test sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tetris_webhook::certificates::{Clock, Contents, Serving};
use tetris_webhook::metrics::Metrics;
use tetris_webhook::readiness::Readiness;
use tetris_webhook::sync::{Names, Sync};

use crate::served::api::{Api, State};

/// A moment in 2026, in seconds since 1970.
pub const START: i64 = 1_790_000_000;
pub const DAY: i64 = 24 * 60 * 60;
/// Host name by which the API server reaches the webhook.
pub const SERVER: &str = "tetris-webhook.tetris-system.svc";

pub fn names() -> Names {
    Names {
        namespace: "tetris-system".to_owned(),
        service: "tetris-webhook".to_owned(),
        secret: "tetris-webhook-tls".to_owned(),
        configuration: "tetris-webhook".to_owned(),
    }
}

/// A clock that stands still until it is set.
#[derive(Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START)))
    }

    pub fn set(&self, now: i64) {
        self.0.store(now, Ordering::Relaxed);
    }

    pub fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || now.load(Ordering::Relaxed))
    }
}

pub struct Replica {
    pub sync: Sync,
    pub serving: Arc<Serving>,
    pub readiness: Arc<Readiness>,
    pub metrics: Arc<Metrics>,
    pub clock: TestClock,
}

impl Replica {
    pub fn new(api: &Api) -> Self {
        let clock = TestClock::new();
        let serving = Arc::new(Serving::default());
        let readiness = Arc::new(Readiness::new(Arc::clone(&serving), clock.clock()));
        let metrics = Arc::new(Metrics::default());
        let sync = Sync::new(
            api.client(),
            names(),
            Arc::clone(&serving),
            Arc::clone(&readiness),
            Arc::clone(&metrics),
            clock.clock(),
        );
        Self {
            sync,
            serving,
            readiness,
            metrics,
            clock,
        }
    }

    /// Until when it serves its certificate.
    pub fn expires(&self) -> Option<i64> {
        Some(self.serving.served()?.validity.not_after)
    }
}

/// Returns the data of the secret.
pub fn data(state: &State) -> BTreeMap<String, ByteString> {
    let secret = state.secret.as_ref().expect("there is no secret");
    serde_json::from_value(secret["data"].clone()).unwrap()
}

/// A secret of ours with this in it.
pub fn secret(data: &BTreeMap<String, ByteString>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
        "metadata": {
            "name": "tetris-webhook-tls", "namespace": "tetris-system", "labels": {"app.kubernetes.io/name": "tetris-webhook"},
        },
    })
}

/// The authorities that each webhook of the configuration trusts, in PEM.
pub fn trusted(state: &State) -> Vec<Option<String>> {
    let webhooks = state.configuration.as_ref().unwrap()["webhooks"]
        .as_array()
        .unwrap();
    let bundle = |webhook: &Value| {
        let bundle = webhook["clientConfig"].get("caBundle")?.clone();
        let ByteString(bundle) = serde_json::from_value(bundle).unwrap();
        Some(String::from_utf8(bundle).unwrap())
    };
    webhooks.iter().map(bundle).collect()
}

/// The secret's authorities in PEM.
pub fn authorities(state: &State) -> String {
    let contents = Contents::read(&data(state));
    tetris_webhook::certificates::bundle(&contents.authorities.unwrap())
}

/// The configuration trusts the secret's authority, in our webhooks alone.
pub fn assert_trusted(state: &State) {
    let expected = Some(authorities(state));
    assert_eq!(trusted(state), [expected.clone(), expected, None]);
}
