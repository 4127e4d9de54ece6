//! Metrics of the GPU mirror.

use tetris_node::gpu_mirror::{GpuMirrorStatus, Implementation};
use tetris_node::metrics::Metrics;

use crate::http::fixtures::mirror;
use tetris_test_support::scrape::Scrape;

const WORKS: &str = "01010101-0101-0101-0101-010101010101";
const LOST: &str = "02020202-0202-0202-0202-020202020202";

fn scrape(status: GpuMirrorStatus) -> Scrape {
    let metrics = Metrics::new(["a", "b"].map(str::to_owned));
    metrics.show_gpu_mirror(move || status.clone());
    Scrape::parse(&metrics.encode(None).unwrap())
}

#[test]
fn every_number_of_a_device_is_there_by_its_uuid() {
    let scrape = scrape(mirror());
    for (name, expected) in [
        ("device_up", 1.0),
        ("capacity_bytes", 1000.0),
        ("chunks_bytes", 800.0),
        ("objects_bytes", 700.0),
        ("waste_bytes", 70.0),
        ("lingering_bytes", 30.0),
        ("held_bytes", 600.0),
        ("models", 5.0),
        ("held_models", 4.0),
        ("leases", 6.0),
        ("group_bytes", 2_097_152.0),
        ("pinned_bytes", 300.0),
        ("link_bytes_per_second", 25.0),
        ("light_bytes", 70.0),
        ("spare_bytes", 80.0),
        ("transfer_bytes", 90.0),
        ("unanswered_check_seconds", 7.0),
    ] {
        let name = format!("tetris_gpu_{name}");
        let works = scrape.value(&name, &[("device", WORKS)]);
        assert_eq!(works, Some(expected), "{name}");
        assert!(scrape.value(&name, &[("device", LOST)]).is_some(), "{name}");
    }
    let lost = scrape.value("tetris_gpu_device_up", &[("device", LOST)]);
    assert_eq!(lost, Some(0.0));
}

#[test]
fn stores_are_named_and_those_that_left_are_not() {
    let scrape = scrape(mirror());
    let quota = |store| scrape.value("tetris_gpu_store_quota_bytes", &[("store", store)]);
    assert_eq!((quota("a"), quota("b")), (Some(500.0), None));
    for store in ["a", "b"] {
        let labels = [("store", store), ("device", WORKS)];
        let taken = scrape.value("tetris_gpu_store_bytes", &labels);
        assert_eq!(taken, Some(400.0));
        let waiting = scrape.value("tetris_gpu_waiting", &[("store", store)]);
        assert_eq!(waiting, Some(3.0));
    }
    let stores = scrape.labels("tetris_gpu_waiting");
    assert_eq!(stores["store"].len(), 2);
}

#[test]
fn what_the_mirror_did_is_counted() {
    let scrape = scrape(mirror());
    let refused = |reason| scrape.value("tetris_gpu_refused_models_total", &[("reason", reason)]);
    assert_eq!(refused("no-room"), Some(7.0));
    assert_eq!(refused("other"), Some(2.0));
    let copied = |path| scrape.value("tetris_gpu_copied_bytes_total", &[("path", path)]);
    assert_eq!(
        (copied("direct"), copied("staged")),
        (Some(50.0), Some(60.0))
    );
    assert_eq!(copied("across"), Some(70.0));
    let count = |name: &str| scrape.value(&format!("tetris_gpu_{name}_total"), &[]);
    assert_eq!(
        (count("awaited_chunks"), count("prefetched_models")),
        (Some(13.0), Some(14.0))
    );
    let failed = scrape.value("tetris_gpu_failed_transfers_total", &[]);
    assert_eq!(failed, Some(2.0));
    let registrations = |of| scrape.value(&format!("tetris_gpu_{of}registrations_total"), &[]);
    assert_eq!(
        (registrations(""), registrations("reused_")),
        (Some(11.0), Some(12.0))
    );
    let up = scrape.value("tetris_gpu_mirror_up", &[("implementation", "cuda")]);
    assert_eq!(up, Some(1.0));
    assert_eq!(scrape.value("tetris_gpu_missing_devices", &[]), Some(1.0));
    assert_eq!(scrape.value("tetris_gpu_connections", &[]), Some(8.0));
}

#[test]
fn a_mirror_without_a_driver_is_down_and_counts_zero() {
    let scrape = scrape(GpuMirrorStatus {
        implementation: Implementation::Cuda,
        running: false,
        reason: Some("no driver".to_owned()),
        missing_devices: 0,
        report: tetris_gpu_server::Report::default(),
        stores: std::collections::BTreeMap::new(),
    });
    let up = scrape.value("tetris_gpu_mirror_up", &[("implementation", "cuda")]);
    assert_eq!(up, Some(0.0));
    let failed = scrape.value("tetris_gpu_failed_transfers_total", &[]);
    assert_eq!(failed, Some(0.0));
}

#[test]
fn without_a_mirror_there_is_no_series_of_it() {
    let metrics = Metrics::new(["a".to_owned()]);
    assert!(!metrics.encode(None).unwrap().contains("gpu"));
}
