//! Metrics against reports.

use std::sync::Arc;

use tetris_node::keep_warm::Freshness;
use tetris_node::metrics::{Metrics, RoomOutcome};
use tetris_node::report::{ErrorClass, HolderCounts, NodeStatus, ScrubResult, Scrubbed, Trigger};
use tetris_reclaimer_core::{Goal, Reason};

use crate::http::fixtures::{node, pass, shortfall};
use tetris_test_support::scrape::Scrape;

fn stores(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn scrape(metrics: &Metrics, status: Option<NodeStatus>) -> Scrape {
    Scrape::parse(&metrics.encode(status.map(Arc::new)).unwrap())
}

#[test]
fn every_value_known_in_advance_is_there_with_zero() {
    let scrape = scrape(&Metrics::new(stores(&["a", "b"])), None);
    for store in ["a", "b"] {
        for reason in Reason::ALL {
            let labels = [("store", store), ("reason", reason.name())];
            assert_eq!(
                scrape.value("tetris_reclaimed_bytes_total", &labels),
                Some(0.0)
            );
            assert_eq!(
                scrape.value("tetris_reclaimed_objects_total", &labels),
                Some(0.0)
            );
        }
        for result in ScrubResult::ALL {
            let labels = [("store", store), ("result", result.name())];
            assert_eq!(
                scrape.value("tetris_scrubbed_bytes_total", &labels),
                Some(0.0)
            );
            assert_eq!(
                scrape.value("tetris_scrubbed_objects_total", &labels),
                Some(0.0)
            );
        }
        for outcome in RoomOutcome::ALL {
            let labels = [("store", store), ("outcome", outcome.name())];
            assert_eq!(
                scrape.value("tetris_room_requests_total", &labels),
                Some(0.0)
            );
        }
        for name in [
            "load_hits",
            "load_misses",
            "load_hit_bytes",
            "load_missed_bytes",
            "kept_by_lock_objects",
            "records_removed",
        ] {
            assert_eq!(
                scrape.value(&format!("tetris_{name}_total"), &[("store", store)]),
                Some(0.0)
            );
        }
    }
    for class in ErrorClass::ALL {
        for store in ["", "a", "b"] {
            let labels = [("store", store), ("class", class.name())];
            assert_eq!(scrape.value("tetris_errors_total", &labels), Some(0.0));
        }
    }
    for trigger in Trigger::ALL {
        let labels = [("trigger", trigger.name())];
        assert_eq!(
            scrape.value("tetris_pass_duration_seconds_count", &labels),
            Some(0.0)
        );
    }
}

#[test]
fn a_pass_is_counted() {
    let metrics = Metrics::new(stores(&["a", "b"]));
    let mut report = pass("a");
    report.errors = vec![
        (ErrorClass::Reclaim, Some("a".to_owned())),
        (ErrorClass::Locks, None),
    ];
    metrics.pass(&report);
    metrics.pass(&report);
    let scrape = scrape(&metrics, None);
    let a = [("store", "a")];
    for (name, expected) in [
        ("load_hits", 10.0),
        ("load_hit_bytes", 1000.0),
        ("load_misses", 12.0),
        ("load_missed_bytes", 1200.0),
        ("kept_by_lock_objects", 2.0),
        ("records_removed", 4.0),
    ] {
        assert_eq!(
            scrape.value(&format!("tetris_{name}_total"), &a),
            Some(expected),
            "{name}"
        );
    }
    let cost = [("store", "a"), ("reason", "cost")];
    assert_eq!(
        scrape.value("tetris_reclaimed_bytes_total", &cost),
        Some(8192.0)
    );
    assert_eq!(
        scrape.value("tetris_reclaimed_objects_total", &cost),
        Some(6.0)
    );
    let other = [("store", "b"), ("reason", "cost")];
    assert_eq!(
        scrape.value("tetris_reclaimed_bytes_total", &other),
        Some(0.0)
    );
    let errors =
        |class, store| scrape.value("tetris_errors_total", &[("class", class), ("store", store)]);
    assert_eq!(errors("reclaim", "a"), Some(2.0));
    assert_eq!(errors("locks", ""), Some(2.0));
    let bucket = |le| {
        scrape.value(
            "tetris_pass_duration_seconds_bucket",
            &[("trigger", "watermark"), ("le", le)],
        )
    };
    assert_eq!(bucket("0.01"), Some(0.0));
    assert_eq!(bucket("0.025"), Some(2.0));
}

#[test]
fn checks_and_requests_are_counted() {
    let metrics = Metrics::new(stores(&["a"]));
    for result in [
        ScrubResult::Sound,
        ScrubResult::Sound,
        ScrubResult::Quarantined,
    ] {
        metrics.scrubbed(&Scrubbed {
            store: "a".to_owned(),
            result,
            bytes: 100,
        });
    }
    metrics.request("a", RoomOutcome::Partly, 77);
    metrics.error(ErrorClass::Kubernetes, None);
    let scrape = scrape(&metrics, None);
    let sound = [("store", "a"), ("result", "sound")];
    assert_eq!(
        scrape.value("tetris_scrubbed_bytes_total", &sound),
        Some(200.0)
    );
    assert_eq!(
        scrape.value(
            "tetris_scrubbed_objects_total",
            &[("store", "a"), ("result", "quarantined")]
        ),
        Some(1.0)
    );
    let partly = [("store", "a"), ("outcome", "partly")];
    assert_eq!(
        scrape.value("tetris_room_requested_bytes_total", &partly),
        Some(77.0)
    );
    assert_eq!(
        scrape.value("tetris_room_requests_total", &partly),
        Some(1.0)
    );
    assert_eq!(
        scrape.value(
            "tetris_errors_total",
            &[("class", "kubernetes"), ("store", "")]
        ),
        Some(1.0)
    );
}

#[test]
fn names_that_are_not_configured_make_no_series() {
    let metrics = Metrics::new(stores(&["a"]));
    for number in 0..100 {
        metrics.request(&format!("made up {number}"), RoomOutcome::Refused, 1);
        metrics.error(ErrorClass::Request, Some(&format!("made up {number}")));
        metrics.pass(&pass(&format!("made up {number}")));
    }
    let scrape = scrape(&metrics, None);
    assert!(!scrape.text.contains("made up"));
    assert_eq!(
        scrape.value(
            "tetris_room_requests_total",
            &[("store", ""), ("outcome", "refused")]
        ),
        Some(100.0)
    );
    assert_eq!(
        scrape.value(
            "tetris_errors_total",
            &[("store", ""), ("class", "request")]
        ),
        Some(100.0)
    );
}

#[test]
fn a_store_that_leaves_the_configuration_leaves_the_metrics() {
    let metrics = Metrics::new(stores(&["a", "b"]));
    metrics.pass(&pass("a"));
    metrics.pass(&pass("b"));
    metrics.set_stores(stores(&["b", "c"]));
    let scrape = scrape(&metrics, None);
    assert!(!scrape.text.contains("store=\"a\""));
    assert_eq!(
        scrape.value("tetris_load_hits_total", &[("store", "b")]),
        Some(5.0)
    );
    assert_eq!(
        scrape.value("tetris_load_hits_total", &[("store", "c")]),
        Some(0.0)
    );
}

#[test]
fn gauges_are_those_of_the_status() {
    let scrape = scrape(&Metrics::new(stores(&["a", "b"])), Some(node()));
    for (name, labels, expected) in [
        (
            "store_bytes",
            &[("store", "a"), ("state", "held")][..],
            200.0,
        ),
        ("store_objects", &[("store", "b"), ("state", "idle")], 1.0),
        (
            "store_bytes",
            &[("store", "a"), ("state", "quarantined")],
            0.0,
        ),
        ("store_up", &[("store", "a")], 1.0),
        ("store_records", &[("store", "a")], 7.0),
        ("store_record_bytes", &[("store", "a")], 50.0),
        ("store_record_limit_bytes", &[("store", "a")], 1_048_576.0),
        ("store_records_not_followed", &[("store", "a")], 3.0),
        ("store_records_quarantined", &[("store", "a")], 4.0),
        ("store_inodes", &[("store", "a")], 26.0),
        ("store_limit_bytes", &[("store", "a")], 1_099_511_627_776.0),
        ("store_inode_limit", &[("store", "a")], 5_000.0),
        ("store_guaranteed_bytes", &[("store", "a")], 3_000.0),
        ("store_holders", &[("store", "a")], 5.0),
        ("store_saved_bytes", &[("store", "a")], 300.0),
        ("store_sharing_factor", &[("store", "a")], 2.5),
        (
            "store_models",
            &[("store", "a"), ("residency", "full")],
            1.0,
        ),
        (
            "store_models",
            &[("store", "a"), ("residency", "part")],
            1.0,
        ),
        (
            "store_models",
            &[("store", "a"), ("residency", "none")],
            1.0,
        ),
        ("store_held_models", &[("store", "a")], 1.0),
        ("store_warm_models", &[("store", "a")], 1.0),
        ("store_foreign_entries", &[("store", "a")], 1.0),
        (
            "mount_capacity_bytes",
            &[("stores", "a,b")],
            1_073_741_824.0,
        ),
        ("mount_free_bytes", &[("stores", "a,b")], 1_048_576.0),
        ("mount_inodes", &[("stores", "a,b")], 1000.0),
        ("mount_free_inodes", &[("stores", "a,b")], 900.0),
        ("mount_large_pages_ratio", &[("stores", "a,b")], 0.25),
        (
            "mount_small_pages",
            &[("stores", "a,b"), ("reason", "memory")],
            1.0,
        ),
        (
            "shortfall_bytes",
            &[("stores", "a,b"), ("goal", "low-watermark")],
            700.0,
        ),
        (
            "shortfall_bytes",
            &[("stores", "a,b"), ("goal", "requests")],
            0.0,
        ),
        (
            "shortfall_bytes",
            &[("stores", "a"), ("goal", "limit")],
            0.0,
        ),
        (
            "shortfall_blocked_bytes",
            &[
                ("stores", "a,b"),
                ("goal", "low-watermark"),
                ("by", "protected"),
            ],
            3.0,
        ),
        ("declarations", &[("state", "current")], 1.0),
        ("declaring_pods", &[], 3.0),
        ("holder_counts_complete", &[], 1.0),
        ("dry_run", &[], 0.0),
        ("node_info", &[("node", "node-1")], 1.0),
        ("last_pass_timestamp_seconds", &[], 1_700_000_000.5),
    ] {
        assert_eq!(
            scrape.value(&format!("tetris_{name}"), labels),
            Some(expected),
            "{name} {labels:?}"
        );
    }
}

#[test]
fn a_mount_and_its_only_store_speak_of_the_same_shortfall() {
    let mut status = node();
    status.mounts[0].stores = vec!["a".to_owned()];
    status.shortfalls = vec![
        shortfall(&["a"], Goal::Requests, 10),
        shortfall(&["a"], Goal::Requests, 30),
    ];
    let scrape = scrape(&Metrics::new(stores(&["a"])), Some(status));
    let labels = [("stores", "a"), ("goal", "requests")];
    assert_eq!(scrape.value("tetris_shortfall_bytes", &labels), Some(30.0));
}

#[test]
fn declarations_are_one_hot() {
    let since = std::time::SystemTime::UNIX_EPOCH;
    for (declarations, expected) in [
        (Freshness::NoCluster, "no-cluster"),
        (Freshness::Unknown, "unknown"),
        (Freshness::Current, "current"),
        (Freshness::Stale { since }, "stale"),
    ] {
        let status = NodeStatus {
            declarations,
            ..node()
        };
        let scrape = scrape(&Metrics::new(stores(&[])), Some(status));
        let samples: Vec<_> = scrape
            .samples
            .iter()
            .filter(|s| s.name == "tetris_declarations")
            .collect();
        assert_eq!(samples.len(), 4);
        for sample in samples {
            let value = u8::from(sample.labels["state"] == expected);
            assert_eq!(Some(sample.value), Some(f64::from(value)));
        }
    }
}

#[test]
fn volumes_are_counted_by_their_ids_where_there_is_a_driver() {
    let metrics = Metrics::new(stores(&["a", "b"]));
    let with = scrape(&metrics, Some(node()));
    for (ids, expected) in [("idmapped", 4.0), ("plain", 1.0)] {
        assert_eq!(
            with.value("tetris_volumes", &[("ids", ids)]),
            Some(expected)
        );
    }
    let without = NodeStatus {
        volumes: None,
        ..node()
    };
    let without = scrape(&metrics, Some(without));
    assert_eq!(without.value("tetris_volumes", &[("ids", "plain")]), None);
}

#[test]
fn counts_that_are_not_there_yet_or_incomplete_are_not_complete() {
    for holder_counts in [HolderCounts::NotYet, HolderCounts::Incomplete] {
        let status = NodeStatus {
            holder_counts,
            ..node()
        };
        let scrape = scrape(&Metrics::new(stores(&[])), Some(status));
        let complete = scrape.value("tetris_holder_counts_complete", &[]);
        assert_eq!(complete, Some(0.0), "{holder_counts:?}");
    }
}

#[test]
fn a_store_with_an_error_is_not_up() {
    let mut status = node();
    status.stores[1].error = Some("gone".to_owned());
    let scrape = scrape(&Metrics::new(stores(&["a", "b"])), Some(status));
    assert_eq!(
        scrape.value("tetris_store_up", &[("store", "a")]),
        Some(1.0)
    );
    assert_eq!(
        scrape.value("tetris_store_up", &[("store", "b")]),
        Some(0.0)
    );
}

#[test]
fn gauges_are_absent_until_something_was_observed() {
    let scrape = scrape(&Metrics::new(stores(&["a"])), None);
    assert!(!scrape.text.contains("tetris_store_bytes"));
    assert!(!scrape.text.contains("tetris_last_pass"));
}

#[test]
fn the_process_is_this_one() {
    let metrics = Metrics::new(stores(&[]));
    let scrape = scrape(&metrics, None);
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs_f64();
    let started = scrape.value("process_start_time_seconds", &[]).unwrap();
    assert!(started > 0.0 && started < now + 2.0, "{started} {now}");
    assert!(scrape.value("process_resident_memory_bytes", &[]).unwrap() > 1e6);
    assert!(scrape.value("process_cpu_seconds_total", &[]).unwrap() >= 0.0);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(scrape.value("tetris_build_info", &version), Some(1.0));
}
