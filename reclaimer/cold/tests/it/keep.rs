//! Models are kept, and come back.

use std::cell::RefCell;

use tetris_cold::{ColdError, Kept, Restored};
use tetris_store_layout::{Digest, IdentityBy, IdentityKey, ManifestKind, TrustDomain};

use crate::node::{Node, any_room, bytes};

#[test]
fn a_model_comes_back_after_a_restart_with_its_files_and_identities() {
    let node = Node::new();
    let (weights, config) = (bytes(1, 9_000_000), bytes(2, 500));
    let model = node.pull(
        "hf://org/a",
        &[("config.json", &config), ("w.gguf", &weights)],
    );
    node.cold().keep(&model, &node.warm, &|| true).unwrap();

    let node = node.restarted();
    assert_eq!(node.read("hf://org/a", "w.gguf"), None);
    let mut cold = node.cold();
    let models = cold.models().unwrap();
    assert_eq!(models.len(), 1);
    let progress = RefCell::new(Vec::new());
    let done = |read, all| progress.borrow_mut().push((read, all));
    let restored = cold
        .restore(&models[0], &node.warm, &any_room, &done)
        .unwrap();

    assert_eq!(node.read("hf://org/a", "w.gguf").unwrap(), weights);
    assert_eq!(node.read("hf://org/a", "config.json").unwrap(), config);
    let by = IdentityBy::Sha256 {
        digest: Digest::of(&weights).0,
        size: weights.len() as u64,
    };
    let kind = ManifestKind::File;
    assert!(
        node.warm
            .look_up(&IdentityKey { kind, by })
            .unwrap()
            .is_some()
    );
    let progress = progress.into_inner();
    assert_eq!(restored.objects as usize, progress.len());
    assert_eq!(progress.last(), Some(&(restored.bytes, restored.bytes)));
    // All of it is there now.
    let again = cold.restore(&models[0], &node.warm, &|_, _| false, &|_, _| ());
    assert_eq!(
        again.unwrap(),
        Restored {
            objects: 0,
            bytes: 0
        }
    );
}

#[test]
fn only_what_the_disk_lacks_is_written() {
    let node = Node::new();
    let (base, tuned) = (bytes(1, 1_000_000), bytes(2, 40_000));
    let first = node.pull("hf://org/base", &[("w.gguf", &base)]);
    let second = node.pull(
        "hf://org/tuned",
        &[("adapter.bin", &tuned), ("w.gguf", &base)],
    );
    let cold = node.cold();
    let kept = cold.keep(&first, &node.warm, &|| true).unwrap().unwrap();
    assert!(kept.bytes >= 1_000_000, "{kept:?}");
    let kept = cold.keep(&second, &node.warm, &|| true).unwrap().unwrap();
    assert!((40_000..50_000).contains(&kept.bytes), "{kept:?}");
    let again = cold.keep(&second, &node.warm, &|| true).unwrap();
    assert_eq!(again, Some(Kept { bytes: 0 }));
}

#[test]
fn a_model_of_a_tenant_is_found_by_its_domain_only() {
    let node = Node::new();
    let pods = TrustDomain::Pods(0x7000_0000);
    let model = node.pull_in(pods, "hf://org/a", &[("w.gguf", &bytes(1, 1000))]);
    let cold = node.cold();
    cold.keep(&model, &node.warm, &|| true).unwrap();
    let model_of = |domains: &[TrustDomain]| cold.find("hf://org/a", domains).unwrap();
    assert_eq!(model_of(&[pods]).unwrap().record, model.record);
    let others = [TrustDomain::Owner, TrustDomain::Pods(0x7000_0001)];
    assert_eq!(model_of(&others), None);
}

#[test]
fn a_model_without_room_stays_on_the_disk() {
    let node = Node::new();
    let model = node.pull("hf://org/a", &[("w.gguf", &bytes(1, 300_000))]);
    node.cold().keep(&model, &node.warm, &|| true).unwrap();
    let node = node.restarted();
    let cold = node.cold();
    let asked = RefCell::new(0);
    let no_room = |bytes, _| {
        *asked.borrow_mut() = bytes;
        false
    };
    let error = cold
        .restore(&model, &node.warm, &no_room, &|_, _| ())
        .unwrap_err();
    assert!(matches!(error, ColdError::NoRoom { .. }), "{error}");
    assert!(asked.into_inner() >= 300_000);
    assert_eq!(node.warm.objects().unwrap().objects, []);
    cold.restore(&model, &node.warm, &any_room, &|_, _| ())
        .unwrap();
}

#[test]
fn a_keep_that_was_stopped_goes_on_from_there() {
    let node = Node::new();
    let model = node.pull(
        "hf://org/a",
        &[("a.bin", &bytes(1, 300_000)), ("b.bin", &bytes(2, 200_000))],
    );
    let cold = node.cold();
    let mut bytes = Vec::new();
    for allowed in 0..3 {
        let asked = RefCell::new(0);
        let keep_on = || asked.replace_with(|count| *count + 1) < allowed;
        assert_eq!(cold.keep(&model, &node.warm, &keep_on).unwrap(), None);
        assert!(!cold.has(&model));
        bytes.push(cold.bytes().unwrap());
    }
    assert!(bytes.is_sorted() && bytes[0] < bytes[1], "{bytes:?}");
    let kept = cold.keep(&model, &node.warm, &|| true).unwrap().unwrap();
    assert!(kept.bytes < 500_000, "{kept:?}");
    assert!(cold.has(&model));
}
