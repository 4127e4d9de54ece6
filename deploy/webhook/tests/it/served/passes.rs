//! One replica keeps the cluster's objects true.

use serde_json::{Value, json};
use tetris_webhook::certificates::{create, fields};
use tetris_webhook::metrics::SyncErrorClass;
use tetris_webhook::sync::SyncError;
use tokio::time::{Duration, Instant};

use crate::served::api::{Api, CONFIGURATION, SECRET, configuration, empty_secret};
use crate::served::replica::{
    DAY, Replica, SERVER, START, assert_trusted, authorities, data, secret,
};

#[tokio::test]
async fn the_first_pass_fills_the_empty_secret_and_tells_the_configuration() {
    let api = Api::new();
    let replica = Replica::new(&api);
    assert!(
        replica
            .readiness
            .check()
            .unwrap_err()
            .to_string()
            .contains("no certificate yet")
    );
    replica.sync.pass().await.unwrap();
    assert_eq!(replica.readiness.check(), Ok(()));
    assert_eq!(replica.expires(), Some(START + 90 * DAY));
    api.with(|state| {
        let expected = [
            format!("GET {CONFIGURATION}"),
            format!("GET {SECRET}"),
            format!("PUT {SECRET}"),
            format!("PATCH {CONFIGURATION}"),
        ];
        assert_eq!(state.asked, expected);
        assert_trusted(state);
        let mut made = state.secret.clone().unwrap();
        let mut shipped = empty_secret();
        for secret in [&mut made, &mut shipped] {
            secret["data"] = Value::Null;
            secret["metadata"]["resourceVersion"] = Value::Null;
        }
        assert_eq!(made, shipped, "nothing but its data changed");
        let webhook = &state.configuration.as_ref().unwrap()["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Ignore");
    });
}

#[tokio::test]
async fn a_second_pass_writes_nothing() {
    let api = Api::new();
    let replica = Replica::new(&api);
    replica.sync.pass().await.unwrap();
    api.with(|state| state.asked.clear());
    replica.sync.pass().await.unwrap();
    api.with(|state| {
        assert_eq!(
            state.asked,
            [format!("GET {CONFIGURATION}"), format!("GET {SECRET}")]
        );
    });
}

#[tokio::test]
async fn an_authority_that_someone_took_out_is_put_back() {
    let api = Api::new();
    let replica = Replica::new(&api);
    replica.sync.pass().await.unwrap();
    api.with(|state| state.configure(configuration()));
    replica.sync.pass().await.unwrap();
    api.with(|state| assert_trusted(state));
}

#[tokio::test]
async fn garbage_of_ours_is_replaced_and_other_fields_stay() {
    let api = Api::new();
    let replica = Replica::new(&api);
    let mut garbage = secret(&std::collections::BTreeMap::new());
    garbage["data"] = json!({"ca.crt": "Z2FyYmFnZQ==", "tls.crt": "", "note": "bm90ZQ=="});
    api.with(|state| state.store(garbage));
    replica.sync.pass().await.unwrap();
    api.with(|state| {
        assert_trusted(state);
        assert_eq!(data(state)["note"].0, b"note");
        assert_eq!(state.count("PUT"), 1);
    });
}

#[tokio::test]
async fn a_secret_of_someone_else_is_not_overwritten() {
    let api = Api::new();
    let replica = Replica::new(&api);
    let mut foreign = secret(&std::collections::BTreeMap::new());
    foreign["data"] = json!({"tls.crt": "Z2FyYmFnZQ==", "tls.key": "Z2FyYmFnZQ=="});
    foreign["metadata"]["labels"] = Value::Null;
    api.with(|state| state.store(foreign));
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::NotOurs { .. }), "{error}");
    assert!(error.to_string().contains("--secret"));
    api.with(|state| {
        assert_eq!((state.count("PUT"), state.count("PATCH")), (0, 0));
        // Not even an empty one: the label could not be added to it.
        let mut empty = empty_secret();
        empty["metadata"]["labels"] = Value::Null;
        state.store(empty);
    });
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::NotOurs { .. }), "{error}");
    assert_eq!(error.class(), SyncErrorClass::Configuration);
}

/// As an install has it whose webhook created the secret by itself.
#[tokio::test]
async fn a_secret_of_an_earlier_install_is_kept_and_renewed() {
    let api = Api::new();
    let replica = Replica::new(&api);
    let made = create(START, SERVER).unwrap();
    api.with(|state| state.store(secret(&made)));
    replica.sync.pass().await.unwrap();
    api.with(|state| {
        assert_eq!(data(state), made);
        assert_eq!(state.count("PUT"), 0);
    });
    replica.clock.set(START + 61 * DAY);
    replica.sync.pass().await.unwrap();
    api.with(|state| {
        let secret = state.secret.as_ref().unwrap();
        assert_eq!(secret["type"], "kubernetes.io/tls");
        assert_eq!(data(state)[fields::CA_KEY], made[fields::CA_KEY]);
        assert_ne!(data(state)[fields::KEY], made[fields::KEY]);
        assert_trusted(state);
    });
}

#[tokio::test]
async fn without_a_secret_it_says_what_to_do_and_creates_none() {
    let api = Api::new();
    let replica = Replica::new(&api);
    api.with(|state| state.secret = None);
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::NoSecret { .. }), "{error}");
    assert!(
        error.to_string().contains("apply the webhook's manifests"),
        "{error}"
    );
    api.with(|state| {
        let written = ["POST", "PUT", "PATCH"].map(|method| state.count(method));
        assert_eq!(written, [0, 0, 0]);
        state.store(empty_secret());
    });
    replica.sync.pass().await.unwrap();
    api.with(|state| assert_trusted(state));
}

#[tokio::test]
async fn without_a_configuration_for_the_service_nothing_is_written() {
    let api = Api::new();
    let replica = Replica::new(&api);
    api.with(|state| state.configuration = None);
    let error = replica.sync.pass().await.unwrap_err();
    assert!(
        matches!(error, SyncError::NoConfiguration { .. }),
        "{error}"
    );
    let mut other = configuration();
    for index in 0..2 {
        other["webhooks"][index]["clientConfig"]["service"]["namespace"] = json!("other");
    }
    api.with(|state| state.configure(other));
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::NoWebhook { .. }), "{error}");
    assert_eq!(error.class(), SyncErrorClass::Configuration);
    api.with(|state| {
        assert_eq!(
            (
                state.count("POST"),
                state.count("PUT"),
                state.count("PATCH")
            ),
            (0, 0, 0)
        );
    });
    api.with(|state| state.configure(configuration()));
    replica.sync.pass().await.unwrap();
}

#[tokio::test]
async fn what_is_served_goes_on_while_the_api_server_is_down_until_it_expires() {
    let api = Api::new();
    let replica = Replica::new(&api);
    replica.sync.pass().await.unwrap();
    api.with(|state| state.is_down = true);
    replica.clock.set(START + 70 * DAY);
    assert!(replica.sync.pass().await.is_err());
    assert_eq!(replica.readiness.check(), Ok(()));
    replica.clock.set(START + 91 * DAY);
    assert!(
        replica
            .readiness
            .check()
            .unwrap_err()
            .to_string()
            .contains("not valid now")
    );
    api.with(|state| state.is_down = false);
    replica.sync.pass().await.unwrap();
    assert_eq!(replica.readiness.check(), Ok(()));
}

#[tokio::test]
async fn certificates_are_renewed_and_authorities_rotated_in_time() {
    let api = Api::new();
    let replica = Replica::new(&api);
    replica.sync.pass().await.unwrap();
    let first = api.with(|state| authorities(state));
    for day in (0..=244).step_by(4) {
        replica.clock.set(START + day * DAY);
        replica.sync.pass().await.unwrap();
        assert!(replica.expires().unwrap() > START + (day + 29) * DAY);
    }
    api.with(|state| {
        assert_trusted(state);
        assert!(authorities(state).ends_with(&first) && authorities(state).len() > first.len());
        // The first, 60, 120, 180, 240, and 244 with the new authority.
        assert_eq!(state.count("PUT"), 6);
        assert_eq!(state.count("PATCH"), 2);
    });
    let metrics = replica.metrics.encode().unwrap();
    for line in [
        "{kind=\"renew\"} 4",
        "{kind=\"renew-ca\"} 1",
        "{kind=\"create\"} 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn nothing_is_served_before_the_api_server_trusts_it() {
    let api = Api::new();
    let replica = Replica::new(&api);
    let made = create(START, SERVER).unwrap();
    api.with(|state| {
        state.store(secret(&made));
        // Someone else writes the configuration between our read and our write.
        state.before_write = Some(Box::new(|state| state.configure(configuration())));
    });
    let error = replica.sync.pass().await.unwrap_err();
    assert!(matches!(error, SyncError::Raced { .. }), "{error}");
    assert!(replica.serving.served().is_none());
    assert!(replica.readiness.check().is_err());
    replica.sync.pass().await.unwrap();
    api.with(|state| assert_eq!(data(state)[fields::KEY], made[fields::KEY]));
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_further_and_further_apart_and_told() {
    let api = Api::new();
    let replica = Replica::new(&api);
    let began = Instant::now();
    for (code, step) in [
        (403, "allow it"),
        (500, "reaches the API server"),
        (429, "overloaded"),
    ] {
        api.with(|state| {
            state.fails_with = Some(code);
            state.asked.clear();
        });
        let enough = async {
            while api.with(|state| state.asked.len() < 3) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        replica.sync.run(enough).await;
        let reason = replica.readiness.check().unwrap_err().to_string();
        assert!(reason.contains(step), "{reason}");
    }
    // Two waits each: from 0.8 s on, with jitter.
    assert!(began.elapsed() >= Duration::from_secs(3));
    api.with(|state| state.fails_with = None);
    let ready = async {
        while replica.readiness.check().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    replica.sync.run(ready).await;
    assert!(
        replica
            .metrics
            .encode()
            .unwrap()
            .contains("sync_errors_total{class=\"api\"} 9")
    );
}
