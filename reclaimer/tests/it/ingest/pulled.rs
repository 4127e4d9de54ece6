//! Pulls of clients that can only read the store.

use std::time::Duration;

use tetris_agent::{Agent, LoadOptions};
use tetris_delivery::{Destination, KnownBy, PullError, PullOptions, PullReport, pull};
use tetris_node::ingest::IngestOptions;
use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::{Fixture, write_model};

use crate::ingest::harness::{Site, eventually, no_room};

fn pulled(agent: &Agent, site: &ModelSite, path: &str) -> Result<PullReport, PullError> {
    let publisher = agent.node_publisher(&LoadOptions::default()).unwrap();
    let destination = Destination::through(&publisher);
    let options = PullOptions::default()
        .with_stall(Duration::from_millis(300))
        .with_attempts(2);
    let source = site.file_url(path).parse().unwrap();
    pull(&source, destination, &options)
}

#[test]
fn a_version_is_known_to_the_user_who_pulled_it() {
    let Some(site) = Site::plain() else { return };
    let path = site.dir.path().join("m.safetensors");
    write_model(&path, 1, None);
    let web = ModelSite::new();
    web.put("m.safetensors", std::fs::read(&path).unwrap());
    let agent = site.agent();
    for (known_by, fetched) in [
        (KnownBy::Reading, std::fs::metadata(&path).unwrap().len()),
        (KnownBy::Version, 0),
    ] {
        let report = pulled(&agent, &web, "m.safetensors").unwrap();
        let known = report.files[0].known_by;
        assert_eq!((known, report.fetched), (known_by, fetched));
    }
    // A new version moves what has changed.
    write_model(&path, 1, Some(7));
    web.put("m.safetensors", std::fs::read(&path).unwrap());
    let report = pulled(&agent, &web, "m.safetensors").unwrap();
    assert_eq!(report.files[0].known_by, KnownBy::Reading);
    assert_eq!(report.files[0].new_objects, 1);
    assert!(site.is_sound());
    eventually("nothing is kept", || site.broker.active_files() == 0);
}

#[test]
fn a_store_without_room_ends_a_pull_with_the_daemon_s_reason() {
    let Some(site) = Site::new(6, IngestOptions::default(), no_room()) else {
        return;
    };
    let model = Fixture::new();
    let model = model.model("m.safetensors", 1);
    let web = ModelSite::new();
    web.put("m.safetensors", std::fs::read(&model).unwrap());
    let error = pulled(&site.agent(), &web, "m.safetensors").unwrap_err();
    assert!(matches!(error, PullError::Daemon { .. }), "{error}");
    assert!(
        error.to_string().contains("no room in the store"),
        "{error}"
    );
    assert_eq!(site.writable().manifests().unwrap().len(), 0);
    eventually("nothing is kept", || site.broker.active_files() == 0);
}

#[test]
fn a_daemon_that_has_gone_ends_a_pull() {
    let Some(mut site) = Site::plain() else {
        return;
    };
    let path = site.dir.path().join("m.safetensors");
    write_model(&path, 1, None);
    let web = ModelSite::new();
    web.put("m.safetensors", std::fs::read(&path).unwrap());
    let agent = site.agent();
    let publisher = agent.node_publisher(&LoadOptions::default()).unwrap();
    site.stop();
    let destination = Destination::through(&publisher);
    let source = web.file_url("m.safetensors").parse().unwrap();
    let error = pull(&source, destination, &PullOptions::default()).unwrap_err();
    assert!(matches!(error, PullError::Daemon { .. }), "{error}");
    assert!(agent.node_publisher(&LoadOptions::default()).is_none());
}
