//! Checks of the CSI sanity suite (kubernetes-csi/csi-test, `pkg/sanity`) on Identity and Node,
//! over the real socket.
//!
//! | check of the suite | test |
//! |---|---|
//! | Identity, GetPluginCapabilities: appropriate capabilities | [`the_identity_service_says_who_the_driver_is`] |
//! | Identity, Probe: appropriate information | the same, and [`a_driver_whose_store_is_gone_is_not_ready`] |
//! | Identity, GetPluginInfo: name's size and characters | the same |
//! | NodeGetCapabilities: appropriate capabilities | [`the_node_service_says_where_it_is_and_that_it_has_no_more_to_offer`] |
//! | NodeGetInfo: node id, number of volumes, topology | the same |
//! | NodePublishVolume: no volume id, no target path, no capability | [`publishing_without_what_it_needs_is_invalid`] |
//! | NodeUnpublishVolume: no volume id, no target path | [`unpublishing_without_what_it_needs_is_invalid`] |
//! | NodeUnpublishVolume: removes the target path | [`unpublishing_removes_the_target_path`] |
//! | "should work", "should be idempotent" | [`every_call_can_be_made_many_times`] |
//!
//! Not applicable, because the driver lacks the capability: all of Controller and GroupController,
//! NodeStageVolume and NodeUnstageVolume (STAGE_UNSTAGE_VOLUME), NodeGetVolumeStats
//! (GET_VOLUME_STATS), NodeExpandVolume (EXPAND_VOLUME). The suite skips them;
//! [`what_is_not_offered_is_unimplemented`]. It makes its volumes by CreateVolume, and here they
//! are inline ones, which have no such call.

use std::fs;
use std::path::Path;

use tetris_node::csi::wire::*;
use tonic::{Code, Status};

use crate::csi::calls::{expect_read_only, mounts};
use crate::csi::fixture::{Driver, Host, request};

fn started(host: &Host) -> Driver {
    Driver::start(&host.config(), vec![host.store("a", &[])])
}

fn probe(driver: &Driver) -> Option<bool> {
    let answer: ProbeResponse = driver
        .csi("/csi.v1.Identity/Probe", ProbeRequest {})
        .unwrap();
    answer.ready
}

fn invalid(answer: Result<(), Status>, field: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert!(error.message().contains(field), "{error}");
}

#[test]
fn the_identity_service_says_who_the_driver_is() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    let info: GetPluginInfoResponse = driver
        .csi("/csi.v1.Identity/GetPluginInfo", GetPluginInfoRequest {})
        .unwrap();
    assert_eq!(info.name, "csi.tetris.dev");
    assert!(!info.vendor_version.is_empty());
    // ^[a-zA-Z][A-Za-z0-9-\.\_]{0,61}[a-zA-Z]$
    let letter = |c: char| c.is_ascii_alphabetic();
    assert!(info.name.starts_with(letter) && info.name.ends_with(letter) && info.name.len() <= 63);
    let _no_capability: GetPluginCapabilitiesResponse = driver
        .csi(
            "/csi.v1.Identity/GetPluginCapabilities",
            GetPluginCapabilitiesRequest {},
        )
        .unwrap();
    assert_eq!(probe(&driver), Some(true));
    driver.stop().unwrap();
}

#[test]
fn a_driver_whose_store_is_gone_is_not_ready() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    fs::remove_file(host.tmpfs().join("a/store")).unwrap();
    assert_eq!(probe(&driver), Some(false));
    let error = driver
        .publish(request(&host.target("pod"), "blue"))
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    driver.stop().unwrap();
}

#[test]
fn the_node_service_says_where_it_is_and_that_it_has_no_more_to_offer() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    let node: NodeGetInfoResponse = driver
        .csi("/csi.v1.Node/NodeGetInfo", NodeGetInfoRequest {})
        .unwrap();
    // Nothing is said of a number of volumes, which is "no limit", or of a topology.
    assert_eq!(node.node_id, "node-1");
    let _no_capability: NodeGetCapabilitiesResponse = driver
        .csi(
            "/csi.v1.Node/NodeGetCapabilities",
            NodeGetCapabilitiesRequest {},
        )
        .unwrap();
    driver.stop().unwrap();
}

#[test]
fn what_is_not_offered_is_unimplemented() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    for call in [
        "/csi.v1.Node/NodeStageVolume",
        "/csi.v1.Node/NodeUnstageVolume",
        "/csi.v1.Node/NodeGetVolumeStats",
        "/csi.v1.Node/NodeExpandVolume",
        "/csi.v1.Controller/ControllerGetCapabilities",
        "/csi.v1.Controller/CreateVolume",
        "/csi.v1.GroupController/GroupControllerGetCapabilities",
    ] {
        let answer = driver.csi::<_, ProbeResponse>(call, ProbeRequest {});
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented, "{call}");
    }
    driver.stop().unwrap();
}

#[test]
fn publishing_without_what_it_needs_is_invalid() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    let target = host.target("pod");
    let refused = |field: &str, change: &dyn Fn(&mut NodePublishVolumeRequest)| {
        let mut request = request(&target, "blue");
        change(&mut request);
        invalid(driver.publish(request), field);
    };
    invalid(
        driver.publish(NodePublishVolumeRequest::default()),
        "`volume_id`",
    );
    refused("`volume_id`", &|request| request.volume_id.clear());
    refused("`volume_id`", &|request| {
        request.volume_id = "x".repeat(129);
    });
    refused("`target_path`", &|request| request.target_path.clear());
    refused("`target_path`", &|request| {
        request.target_path += "/../../../../../../x";
    });
    // The kubelet's directory of the volume is the kubelet's to make.
    let nowhere = host.kubelet().join("pods/none/volumes/x/mount");
    refused("`target_path`", &|request| {
        request.target_path = nowhere.display().to_string();
    });
    refused("`volume_capability`", &|request| {
        request.volume_capability = None;
    });
    refused("`store`", &|request| {
        let attribute = ("no.such/attribute".to_owned(), "x".to_owned());
        request.volume_context.extend([attribute]);
    });
    assert!(!target.exists());
    let mut longest = request(&target, "blue");
    longest.volume_id = "x".repeat(128);
    driver.publish(longest).unwrap();
    let id = "x".repeat(128);
    let path = target.display().to_string();
    driver.unpublish_volume(&id, &path).unwrap();
    driver.stop().unwrap();
}

#[test]
fn unpublishing_without_what_it_needs_is_invalid() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    let target = host.target("pod").display().to_string();
    invalid(driver.unpublish_volume("", ""), "`volume_id`");
    invalid(driver.unpublish_volume("", &target), "`volume_id`");
    invalid(driver.unpublish_volume("csi-1", ""), "`target_path`");
    invalid(driver.unpublish_volume("csi-1", "/etc"), "`target_path`");
    driver.stop().unwrap();
}

#[test]
fn unpublishing_removes_the_target_path() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    let target = host.target("pod");
    driver.publish(request(&target, "blue")).unwrap();
    assert!(target.exists());
    driver.unpublish(&target).unwrap();
    assert!(!target.exists());
    driver.stop().unwrap();
}

#[test]
fn every_call_can_be_made_many_times() {
    let Some(host) = Host::new() else { return };
    let driver = started(&host);
    let target = host.target("pod");
    // Neither the volume nor the directories above its target are there.
    let missing = host.kubelet().join("pods/none/volumes/x/mount");
    for target in [&target, Path::new(&missing)] {
        driver.unpublish(target).unwrap();
    }
    for _ in 0..10 {
        driver.publish(request(&target, "blue")).unwrap();
    }
    assert_eq!(mounts(&target).len(), 1);
    expect_read_only(&target);
    for _ in 0..10 {
        driver.unpublish(&target).unwrap();
    }
    assert_eq!(mounts(&target).len(), 0);
    driver.stop().unwrap();
}
