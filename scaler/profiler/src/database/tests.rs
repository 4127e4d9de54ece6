use super::*;
use crate::latency::LatencyMicros;
use crate::setting::Setting;

fn stored(identity: &str) -> StoredProfile {
    StoredProfile {
        identity: identity.to_owned(),
        model: "m".to_owned(),
        command: vec!["serve".to_owned()],
        machine: Machine::this(),
        at: "2026-01-01T00:00:00Z".to_owned(),
        shared: SharedPart::default(),
    }
}

fn measured(concurrency: u32) -> Measurement {
    let setting = Setting {
        cpu_millis: 1_000,
        batch: 1,
        concurrency,
    };
    let latency = LatencyMicros {
        p50: 1,
        p90: 2,
        p95: 3,
        p99: 4,
    };
    Measurement {
        setting,
        own_bytes: 5,
        verified: true,
        latency,
        requests: 6,
        errors: 0,
        requests_per_second: 7.5,
        on_gpu: None,
    }
}

#[test]
fn what_was_recorded_is_there_after_reopening_and_by_identity() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/profiles.redb");
    let database = ProfileDatabase::create(&path).unwrap();
    for concurrency in [10, 2] {
        database
            .record("a", &stored("x"), &measured(concurrency))
            .unwrap();
    }
    database.record("a", &stored("y"), &measured(3)).unwrap();
    database.record("ab", &stored("x"), &measured(4)).unwrap();
    drop(database);
    let database = ProfileDatabase::open(&path).unwrap();
    let measured_now = database.measurements("a", "x").unwrap();
    assert_eq!(measured_now, [measured(2), measured(10)]);
    assert_eq!(database.profile("a").unwrap().unwrap(), stored("y"));
    let names: Vec<_> = database
        .profiles()
        .unwrap()
        .into_iter()
        .map(|(name, _, count)| (name, count))
        .collect();
    assert_eq!(names, [("a".to_owned(), 1), ("ab".to_owned(), 1)]);
    database.forget("a").unwrap();
    assert!(database.measurements("a", "x").unwrap().is_empty());
    assert_eq!(database.profile("a").unwrap(), None);
    assert_eq!(database.measurements("ab", "x").unwrap().len(), 1);
}

#[test]
fn errors_name_the_database_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.redb");
    let error = ProfileDatabase::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("none.redb") && error.contains("--database"),
        "{error}"
    );
    let _open = ProfileDatabase::create(&path).unwrap();
    let error = ProfileDatabase::open(&path).unwrap_err().to_string();
    assert!(error.contains("another process"), "{error}");
    let damaged = dir.path().join("damaged.redb");
    fs::write(&damaged, b"not a database, whatever its length may be").unwrap();
    assert!(matches!(
        ProfileDatabase::open(&damaged),
        Err(DatabaseError::Failed { .. })
    ));
}
