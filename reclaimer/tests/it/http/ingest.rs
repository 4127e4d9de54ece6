//! Metrics of files that clients pass.

use std::time::Duration;

use tetris_node::ingest::{EndedIngest, IngestObserver, IngestOutcome};
use tetris_node::metrics::Metrics;
use tetris_wire::daemon::IngestReason;

use tetris_test_support::scrape::Scrape;

const FILES: &str = "tetris_ingest_files_total";
const READ: &str = "tetris_ingest_read_bytes_total";
const IN_FLIGHT: &str = "tetris_ingest_in_flight_files";
const COUNT: &str = "tetris_ingest_duration_seconds_count";

fn scrape(metrics: &Metrics) -> Scrape {
    Scrape::parse(&metrics.encode(None).unwrap())
}

fn ended(store: &str, outcome: IngestOutcome, bytes_read: u64) -> EndedIngest<'_> {
    EndedIngest {
        store,
        outcome,
        bytes_read,
        took: Duration::from_secs(2),
    }
}

#[test]
fn every_outcome_is_there_with_zero() {
    let scrape = scrape(&Metrics::new(["a", "b"].map(str::to_owned)));
    for store in ["a", "b"] {
        for outcome in IngestOutcome::ALL {
            let labels = [("store", store), ("outcome", outcome.name())];
            for name in [FILES, READ] {
                assert_eq!(scrape.value(name, &labels), Some(0.0));
            }
        }
        for name in [IN_FLIGHT, COUNT] {
            assert_eq!(scrape.value(name, &[("store", store)]), Some(0.0));
        }
    }
}

#[test]
fn files_are_counted_by_store_and_outcome_until_the_store_goes() {
    let metrics = Metrics::new(["a", "b"].map(str::to_owned));
    metrics.ended(ended("a", IngestOutcome::Published, 700));
    metrics.ended(ended("a", IngestOutcome::Known, 0));
    let stalled = IngestOutcome::Refused(IngestReason::STALLED);
    metrics.ended(ended("a", stalled, 50));
    metrics.active_files("a", 3);
    metrics.active_files("a", 2);
    let scraped = scrape(&metrics);
    let of = |outcome| [("store", "a"), ("outcome", outcome)];
    for (outcome, bytes) in [("published", 700.0), ("known", 0.0), ("stalled", 50.0)] {
        let counted = [FILES, READ].map(|name| scraped.value(name, &of(outcome)));
        assert_eq!(counted, [Some(1.0), Some(bytes)], "{outcome}");
    }
    let a = [("store", "a")];
    assert_eq!(scraped.value(IN_FLIGHT, &a), Some(2.0));
    // What was refused took no time to get into the store.
    assert_eq!(scraped.value(COUNT, &a), Some(2.0));
    let sum = "tetris_ingest_duration_seconds_sum";
    assert_eq!(scraped.value(sum, &a), Some(4.0));
    metrics.set_stores(["b".to_owned()]);
    let scraped = scrape(&metrics);
    assert_eq!(scraped.value(COUNT, &a), None);
    assert_eq!(scraped.value(IN_FLIGHT, &a), None);
    assert_eq!(scraped.value(FILES, &of("known")), None);
}

#[test]
fn stores_that_are_not_configured_make_no_series() {
    let metrics = Metrics::new(["a".to_owned()]);
    for number in 0..100 {
        let name = format!("made up {number}");
        metrics.active_files(&name, 5);
        metrics.ended(ended(&name, IngestOutcome::Known, 1));
    }
    let scraped = scrape(&metrics);
    assert!(!scraped.text.contains("made up"));
    let none = [("store", ""), ("outcome", "known")];
    assert_eq!(scraped.value(FILES, &none), Some(100.0));
    assert_eq!(scraped.value(IN_FLIGHT, &[("store", "")]), None);
}
