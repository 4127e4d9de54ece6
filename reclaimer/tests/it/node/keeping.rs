//! Knowledge of a daemon after its restart.

use std::collections::BTreeMap;
use std::time::SystemTime;

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::keep_warm::{Freshness, Pod, WarmSet};
use tetris_node::report::ErrorClass;

use crate::node::fixture::{
    Fixture, HOUR_MS, expire_after_a_minute, in_two_minutes, pass, set_used,
};

#[test]
fn the_last_use_survives_a_restart() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let held_until = now_ms() + 5 * HOUR_MS;
    let mut reclaimer = Reclaimer::new(config.clone(), false, now_ms());
    let model = fixture.load("a", "bert", 1);
    // Records say that it was used long before it was last held.
    let manifest = store.manifests().unwrap()[0].id;
    let record = fixture.path("a/manifests-v1").join(manifest.to_string());
    set_used(&record, now_ms() - HOUR_MS);
    pass(&mut reclaimer, held_until);
    drop(model);
    reclaimer.keep(held_until);
    drop(reclaimer);
    let mut reclaimer = Reclaimer::new(config, false, held_until);
    pass(&mut reclaimer, held_until + 30_000);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    pass(&mut reclaimer, held_until + 90_000);
    assert!(store.objects().unwrap().objects.is_empty());
}

#[test]
fn state_lies_in_the_store_or_in_the_directory_that_is_configured_and_only_its_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    fixture.store("a");
    let elsewhere = fixture.path("state");
    std::fs::create_dir(&elsewhere).unwrap();
    let configs = [
        (
            fixture.config(&["a"], |_| {}),
            fixture.path("a/reclaimer-state"),
        ),
        (
            fixture.config(&["a"], |file| file.state_dir = Some(elsewhere.clone())),
            elsewhere.join("a.json"),
        ),
    ];
    for (config, path) in configs {
        let mut reclaimer = Reclaimer::new(config, false, now_ms());
        pass(&mut reclaimer, now_ms());
        reclaimer.keep(now_ms());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let passed = pass(&mut reclaimer, now_ms());
        assert!(passed.status.stores[0].foreign.is_empty());
    }
}

#[test]
fn damaged_state_is_told_and_replaced() {
    let fixture = Fixture::new();
    fixture.store("a");
    let path = fixture.path("a/reclaimer-state");
    for damaged in [
        "",
        "{",
        "[]",
        r#"{"version":2}"#,
        r#"{"version":1,"store_id":5}"#,
    ] {
        std::fs::write(&path, damaged).unwrap();
        let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
        let told = pass(&mut reclaimer, now_ms()).report.errors;
        assert_eq!(
            told,
            [(ErrorClass::State, Some("a".to_owned()))],
            "{damaged}"
        );
        reclaimer.keep(now_ms());
        let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
        assert!(pass(&mut reclaimer, now_ms()).report.errors.is_empty());
    }
}

#[test]
fn state_that_cannot_be_written_is_told_and_nothing_else_happens() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    std::fs::create_dir(fixture.path("a/reclaimer-state.new")).unwrap();
    let mut reclaimer = Reclaimer::new(
        fixture.config(&["a"], expire_after_a_minute),
        false,
        now_ms(),
    );
    drop(fixture.load("a", "bert", 1));
    pass(&mut reclaimer, now_ms());
    reclaimer.keep(now_ms());
    let passed = pass(&mut reclaimer, in_two_minutes());
    let class = (ErrorClass::State, Some("a".to_owned()));
    assert!(passed.report.errors.contains(&class));
    assert!(store.objects().unwrap().objects.is_empty());
}

#[test]
fn what_pods_declared_holds_until_the_api_server_is_reached_again() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], |file| {
        expire_after_a_minute(file);
        file.kubernetes.enabled = true;
        file.node = Some("node-1".to_owned());
    });
    let mut reclaimer = Reclaimer::new(config.clone(), false, now_ms());
    drop(fixture.load("a", "bert", 1));
    let manifest = store.manifests().unwrap()[0].id;
    let pod = Pod {
        namespace: "team".to_owned(),
        name: "server".to_owned(),
        uid: "1".to_owned(),
    };
    let declared = [format!("manifest:{manifest}").parse().unwrap()];
    reclaimer.declare(WarmSet {
        freshness: Freshness::Current,
        pods: BTreeMap::from([(pod, declared.into())]),
    });
    pass(&mut reclaimer, in_two_minutes());
    reclaimer.keep(now_ms());
    drop(reclaimer);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    assert!(matches!(
        reclaimer.declared().freshness,
        Freshness::Stale { .. }
    ));
    pass(&mut reclaimer, in_two_minutes() + HOUR_MS);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    // Reached: no one declares it any more.
    reclaimer.declare(WarmSet {
        freshness: Freshness::Current,
        ..WarmSet::before_first_sync(None, SystemTime::now())
    });
    pass(&mut reclaimer, in_two_minutes() + HOUR_MS);
    assert!(store.objects().unwrap().objects.is_empty());
}
