//! Files of which the records are large, or many: these are kept within limits, whatever clients
//! pass.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use tetris_agent::{Agent, LoadOptions, ManifestKind, Model, Recognized, Store};
use tetris_store_layout::RecordUse;
use tetris_wire::daemon::{IngestReason, Message};

use crate::ingest::ground::{Ground, tensor};
use crate::ingest::harness::{Raw, Site, open};
use crate::ingest::process::Daemon;
use tetris_test_support::settled::settle;

const MIB: usize = 1 << 20;
const LIMITS: RecordUse = RecordUse {
    bytes: 14 << 20,
    files: 64,
};
/// The same for the daemon, which makes no pass by itself.
const CONFIG: &str =
    "interval_secs = 3600\n[policy.store]\nrecord_bytes = 14680064\nrecord_files = 64\n";

/// A file with so many bytes of metadata, and perhaps a tensor.
fn file(ground: &Ground, name: &str, metadata: usize, weights: Option<&[u8]>) -> PathBuf {
    let value = name.repeat(metadata / name.len());
    let tensor = weights.map_or_else(String::new, |weights| {
        let len = weights.len();
        format!(r#","w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}"#)
    });
    let header = format!(r#"{{"__metadata__":{{"text":"{value}"}}{tensor}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(weights.unwrap_or_default());
    ground.file(name, &bytes)
}

/// Loads a file through the store, however small or new it is.
fn shared(agent: &Agent, path: &Path) -> Model {
    let options = LoadOptions::default().with_min_shared_bytes(0);
    agent.load_with(path, &options).unwrap()
}

fn used(ground: &Ground) -> RecordUse {
    let store = Store::open(ground.store()).unwrap();
    store.record_use().unwrap()
}

#[test]
fn of_a_file_without_tensor_bytes_nothing_is_published_and_its_reader_loads_it() {
    let Some(site) = Site::plain() else { return };
    let nothing = RecordUse::default();
    let path = file(&site, "metadata", 40, None);
    for kind in [ManifestKind::Safetensors, ManifestKind::File] {
        let empty = match kind {
            ManifestKind::Safetensors => path.clone(),
            ManifestKind::File => site.file("empty", b""),
        };
        assert_eq!(site.refusal(open(&empty), kind), IngestReason::EMPTY);
        assert_eq!(used(&site), nothing);
    }
    let of_empty_tensors = site.file(
        "empty tensors",
        &crate::ingest::ground::of_tensors(&[("none", Vec::new())]),
    );
    for path in [path, of_empty_tensors] {
        // Whether the store can be written or only read.
        for root in [site.store(), site.view()] {
            let model = shared(&Agent::open_store(root).unwrap(), &path);
            assert_eq!(model.report().bytes_private, 0);
            assert!(model.report().private_reason.is_none());
            assert_eq!(used(&site), nothing);
        }
    }
}

#[test]
fn records_stay_within_their_limits_and_room_is_found_again() {
    let Some(ground) = Ground::new(192) else {
        return;
    };
    let daemon = Daemon::configured(&ground, CONFIG);
    let agent = Agent::open_store(ground.view()).unwrap();
    let load = |path: &PathBuf| {
        let model = shared(&agent, path);
        std::fs::remove_file(path).unwrap();
        model
    };
    for number in 0..40 {
        let path = file(&ground, &format!("metadata {number:02} "), 31 * MIB, None);
        assert!(load(&path).report().private_reason.is_none());
    }
    assert_eq!(used(&ground), RecordUse::default());
    // One mapped object, and manifests that all name it.
    let weights = tensor(MIB, 1);
    let base = file(&ground, "base", 40, Some(&weights));
    let manifests: Vec<_> = (0..20)
        .map(|number| {
            let name = format!("shared {number:02} ");
            file(&ground, &name, 4 * MIB, Some(&weights))
        })
        .collect();
    let copies: Vec<_> = (0..100)
        .map(|number| {
            let path = ground.dir.path().join(format!("copy {number}"));
            std::fs::copy(&base, &path).unwrap();
            path
        })
        .collect();
    // Identities are bound of files that are old enough.
    settle(&copies[copies.len() - 1]);
    let base_model = shared(&agent, &base);
    for path in manifests {
        let model = load(&path);
        assert_eq!(
            model.report().recognized,
            [Recognized::Brokered],
            "{:?}",
            model.report()
        );
        assert!(used(&ground).is_within(LIMITS), "{:?}", used(&ground));
    }
    assert!(
        used(&ground).bytes > LIMITS.bytes / 2,
        "they are kept while there is place"
    );
    // Files of one content: an identity each.
    for path in copies {
        let model = load(&path);
        assert_eq!(
            model.report().recognized,
            [Recognized::Brokered],
            "{:?}",
            model.report()
        );
        assert!(used(&ground).is_within(LIMITS), "{:?}", used(&ground));
    }
    // What no limit could hold is loaded by its reader.
    let path = file(&ground, "too large ", 15 * MIB, Some(&weights));
    let mut raw = Raw::greeted(&ground.view());
    raw.pass(ManifestKind::Safetensors, &[open(&path).as_fd()]);
    let Message::IngestRefused(refusal) = raw.answer() else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, IngestReason::TOO_LARGE);
    assert!(refusal.text.contains("record_bytes"), "{}", refusal.text);
    assert!(load(&path).tensor("w").is_some());
    // The node's memory is there for tensors.
    let path = file(&ground, "large", 40, Some(&tensor(160 * MIB, 2)));
    let model = load(&path);
    assert_eq!(
        model.report().recognized,
        [Recognized::Brokered],
        "{:?}",
        model.report()
    );
    // Of 21 manifests and 121 identities no more than those are left.
    assert!(daemon.metric("tetris_records_removed_total") >= 142.0 - LIMITS.files as f64);
    let bytes = daemon.metric("tetris_store_record_bytes");
    assert!(bytes <= LIMITS.bytes as f64, "{bytes}");
    drop(base_model);
}
