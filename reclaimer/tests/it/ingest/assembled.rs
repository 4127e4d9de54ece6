//! Clients that can only read the store publish the manifests of files whose objects are in it.

use std::fs::File;
use std::io::Seek;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tetris_agent::{Agent, LoadOptions};
use tetris_loader::MemoryFile;
use tetris_node::ingest::{IngestConfig, IngestOptions};
use tetris_store_layout::{
    Digest, IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, ObjectRef, Store,
};
use tetris_test_support::alone::alone;
use tetris_test_support::models::{bytes, write_f32, write_model};
use tetris_wire::daemon::{IngestReason, IngestRefusal, Message};

use crate::ingest::harness::{Raw, Site, eventually, no_room};
use crate::ingest::headers::file_of;
use crate::private_memory::private_bytes;

/// A file, as one that pulls it has it: in parts.
struct Parts {
    manifest: Manifest,
    header: Vec<u8>,
    sha256: [u8; 32],
}

impl Site {
    /// Publishes the objects of a file as a client, and returns the other parts of it.
    fn objects_of(&self, file: &Path, kind: ManifestKind) -> Parts {
        let options = LoadOptions::default();
        let manifests = Agent::without_store().manifests(file, kind, &options);
        let manifest = manifests.unwrap().remove(0).1;
        let content = std::fs::read(file).unwrap();
        let header = content[..manifest.data_start as usize].to_vec();
        for (index, object) in manifest.objects.iter().enumerate() {
            let object = object.object;
            let mut bytes = vec![0; object.len as usize];
            if kind == ManifestKind::File {
                bytes.copy_from_slice(&content);
            }
            for tensor in &manifest.tensors {
                let Some(place) = tensor.place.filter(|place| place.object == index as u32) else {
                    continue;
                };
                let (at, from) = (
                    place.offset as usize,
                    header.len() + tensor.source_offset as usize,
                );
                let len = tensor.len as usize;
                bytes[at..at + len].copy_from_slice(&content[from..from + len]);
            }
            let mut raw = Raw::greeted(&self.view());
            let memory = MemoryFile::sealed(&[&bytes]).unwrap();
            raw.pass_memory(object, &[memory.as_fd()]);
            let answer = raw.answer();
            assert!(matches!(answer, Message::Published { .. }), "{answer:?}");
        }
        Parts {
            manifest,
            header,
            sha256: Sha256::digest(&content).into(),
        }
    }

    fn assemble_memory(
        &self,
        memory: &OwnedFd,
        manifest_len: u64,
        sha256: Option<[u8; 32]>,
    ) -> Message {
        let message = Message::Assemble {
            manifest_len,
            sha256,
        };
        let frame = message.encode();
        let mut raw = Raw::greeted(&self.view());
        raw.send(&frame[..5]);
        raw.send_with(&frame[5..], &[memory.as_fd()]);
        let answer = raw.answer();
        raw.send(&Message::IngestDone.encode());
        answer
    }

    fn assemble(&self, manifest: &[u8], header: &[u8], sha256: Option<[u8; 32]>) -> Message {
        let memory = MemoryFile::sealed(&[manifest, header]).unwrap();
        self.assemble_memory(&memory, manifest.len() as u64, sha256)
    }

    #[track_caller]
    fn assert_refused(&self, answer: Message, reason: IngestReason, expected: &str) {
        let Message::IngestRefused(IngestRefusal {
            reason: found,
            text,
        }) = answer
        else {
            panic!("no refusal: {answer:?}");
        };
        assert_eq!(found, reason, "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(self.writable().manifests().unwrap().len(), 0);
    }

    /// The store, as the daemon has it.
    pub fn writable(&self) -> Store {
        Store::open(self.store()).unwrap()
    }
}

fn sha256_key(kind: ManifestKind, digest: [u8; 32], size: u64) -> IdentityKey {
    IdentityKey {
        kind,
        by: IdentityBy::Sha256 { digest, size },
    }
}

/// A file with packs, large tensors, and one without elements.
fn model(site: &Site) -> std::path::PathBuf {
    let path = site.dir.path().join("m.safetensors");
    let tensors: Vec<_> = [40, 300_000, 0, 8, 70_000, 4, 5_000_000, 12]
        .into_iter()
        .enumerate()
        .map(|(index, len)| (format!("t{index}"), bytes(index as u64, len)))
        .collect();
    write_f32(&path, &tensors);
    path
}

#[test]
fn a_manifest_is_proved_and_its_file_known_by_its_digest() {
    let Some(site) = Site::plain() else { return };
    let path = model(&site);
    let parts = site.objects_of(&path, ManifestKind::Safetensors);
    let (id, size) = (parts.manifest.id(), parts.manifest.source_size);
    let key = sha256_key(ManifestKind::Safetensors, parts.sha256, size);
    let ingested = |bytes_read| Message::Ingested {
        manifest: id,
        bytes_read,
    };
    // Without a digest, nothing is bound.
    let encoded = parts.manifest.encode();
    assert_eq!(site.assemble(&encoded, &parts.header, None), ingested(0));
    assert_eq!(site.writable().look_up(&key).unwrap(), None);
    // A digest is proved once.
    for read in [size, 0] {
        let answer = site.assemble(&encoded, &parts.header, Some(parts.sha256));
        assert_eq!(answer, ingested(read));
    }
    assert_eq!(site.writable().look_up(&key).unwrap(), Some(id));
    // It is the manifest of a load: another client passes the file, and none of it is new.
    let loaded = site.agent().load(&path).unwrap();
    assert_eq!(loaded.report().bytes_private, 0);
    assert_eq!(site.objects(), parts.manifest.objects.len());
    assert!(site.is_sound());
    eventually("nothing is kept", || site.broker.active_files() == 0);
}

#[test]
fn a_file_kept_whole_has_no_header() {
    let Some(site) = Site::plain() else { return };
    let path = site.dir.path().join("tokenizer.json");
    std::fs::write(&path, bytes(7, 100_001)).unwrap();
    let parts = site.objects_of(&path, ManifestKind::File);
    let encoded = parts.manifest.encode();
    let answer = site.assemble(&encoded, b"{}", None);
    site.assert_refused(answer, IngestReason::INVALID, "has no header");
    let answer = site.assemble(&encoded, &[], Some(parts.sha256));
    let id = parts.manifest.id();
    assert!(matches!(answer, Message::Ingested { manifest, .. } if manifest == id));
    let key = sha256_key(ManifestKind::File, parts.sha256, 100_001);
    assert_eq!(site.writable().look_up(&key).unwrap(), Some(id));
}

#[test]
fn manifests_that_are_not_true_are_refused_and_leave_nothing() {
    let Some(site) = Site::plain() else { return };
    let parts = site.objects_of(&model(&site), ManifestKind::Safetensors);
    let encoded = parts.manifest.encode();
    let (invalid, changed) = (IngestReason::INVALID, IngestReason::CHANGED);
    let refused = |manifest: &[u8], header: &[u8], reason, expected: &str| {
        let answer = site.assemble(manifest, header, Some(parts.sha256));
        site.assert_refused(answer, reason, expected);
    };
    refused(&encoded[1..], &parts.header, invalid, "not true");
    refused(b"x", &parts.header, invalid, "not true");
    refused(&encoded, &[], invalid, "not true");
    refused(&encoded, &parts.header[..40], invalid, "not true");
    let longer = [&parts.header[..], b"\0"].concat();
    refused(&encoded, &longer, invalid, "not all of the bytes");
    // Another name of a tensor in the header: other bytes of the file, so another manifest.
    let mut renamed = parts.header.clone();
    let at = renamed
        .windows(4)
        .position(|bytes| bytes == b"\"t1\"")
        .unwrap();
    renamed[at + 2] = b'9';
    refused(&encoded, &renamed, invalid, "make another");
    let lie = |change: fn(&mut Manifest)| {
        let mut manifest = parts.manifest.clone();
        change(&mut manifest);
        manifest.encode()
    };
    // The id of a small tensor, which lies in a pack.
    let other_id = lie(|manifest| {
        let small = manifest.tensors.iter_mut().find(|tensor| tensor.len == 40);
        small.unwrap().id = tetris_store_layout::TensorId::of(b"other");
    });
    refused(&other_id, &parts.header, invalid, "not true");
    let other_kind = lie(|manifest| {
        manifest.objects[0].kind = match manifest.objects[0].kind {
            tetris_store_layout::ObjectKind::Pack => tetris_store_layout::ObjectKind::Tensor,
            _ => tetris_store_layout::ObjectKind::Pack,
        };
    });
    refused(&other_kind, &parts.header, invalid, "not true");
    let metadata = lie(|manifest| {
        manifest
            .metadata
            .push(("license".to_owned(), "mine".to_owned()));
    });
    refused(&metadata, &parts.header, invalid, "make another");
    // An object that the store does not have.
    let absent = lie(|manifest| {
        let large = manifest
            .objects
            .iter_mut()
            .max_by_key(|entry| entry.object.len);
        let large = large.unwrap();
        let object = ObjectRef::of(&vec![1; large.object.len as usize]);
        let id = tetris_store_layout::TensorId(object.id.0);
        let at = manifest
            .tensors
            .iter_mut()
            .find(|tensor| tensor.len == object.len);
        at.unwrap().id = id;
        large.object = object;
    });
    refused(
        &absent,
        &parts.header,
        IngestReason::NO_OBJECT,
        "1 of 4 objects",
    );
    let answer = site.assemble(&encoded, &parts.header, Some([1; 32]));
    site.assert_refused(answer, changed, "expected SHA-256");
    let memory = MemoryFile::sealed(&[&encoded, &parts.header]).unwrap();
    for manifest_len in [
        0,
        u64::MAX,
        encoded.len() as u64 + parts.header.len() as u64 + 1,
    ] {
        let answer = site.assemble_memory(&memory, manifest_len, None);
        site.assert_refused(answer, invalid, "not true");
    }
    let large = MemoryFile::sealed(&[&vec![1; (16 << 20) + 1]]).unwrap();
    let answer = site.assemble_memory(&large, 1, None);
    site.assert_refused(
        answer,
        IngestReason::TOO_LARGE,
        "at most 16777216 are taken",
    );
    let file = File::open(model(&site)).unwrap().into();
    let answer = site.assemble_memory(&file, 1, None);
    let is_refused = matches!(
        answer,
        Message::IngestRefused(IngestRefusal { reason, .. })
            if [IngestReason::NOT_MEMORY, IngestReason::NOT_SEALED].contains(&reason)
    );
    assert!(is_refused, "{answer:?}");
    assert!(site.is_sound());
    let answer = site.assemble(&encoded, &parts.header, Some(parts.sha256));
    let id = ManifestId(Digest(parts.manifest.id().0.0));
    assert!(matches!(answer, Message::Ingested { manifest, .. } if manifest == id));
    eventually("nothing is kept", || site.broker.active_files() == 0);
}

#[test]
fn a_model_s_tensors_may_be_those_of_another() {
    let Some(site) = Site::plain() else { return };
    let (base, tuned) = (site.dir.path().join("base"), site.dir.path().join("tuned"));
    write_model(&base, 1, None);
    write_model(&tuned, 1, Some(7));
    site.objects_of(&base, ManifestKind::Safetensors);
    let before = site.objects();
    let parts = site.objects_of(&tuned, ManifestKind::Safetensors);
    assert_eq!(site.objects(), before + 1);
    let encoded = parts.manifest.encode();
    let answer = site.assemble(&encoded, &parts.header, Some(parts.sha256));
    assert!(matches!(answer, Message::Ingested { .. }), "{answer:?}");
}

#[test]
fn manifests_of_many_clients_at_once_stay_within_their_memory() {
    if !alone() {
        return;
    }
    let options = IngestOptions {
        config: IngestConfig {
            concurrent: 8,
            per_store: 8,
            per_user: 8,
            max_tensors: 2_000_000,
            ..IngestConfig::default()
        },
        ..IngestOptions::default()
    };
    let Some(site) = Site::new(256, options, no_room()) else {
        return;
    };
    let mut passed: Vec<(OwnedFd, u64)> = Vec::new();
    let mut largest = 0;
    for seed in 0..4 {
        let path = site.dir.path().join("m.safetensors");
        let mut file = file_of(6, seed);
        file.rewind().unwrap();
        std::io::copy(&mut file, &mut File::create(&path).unwrap()).unwrap();
        let parts = site.objects_of(&path, ManifestKind::Safetensors);
        let manifest = parts.manifest.encode();
        let memory = MemoryFile::sealed(&[&manifest, &parts.header]).unwrap();
        largest = largest.max(manifest.len() + parts.header.len());
        passed.push((memory, manifest.len() as u64));
    }
    assert!(largest > 12 << 20, "{largest}");
    let before = private_bytes();
    let peak = AtomicU64::new(0);
    let answers: Vec<Message> = std::thread::scope(|scope| {
        let site = &site;
        let assembled =
            |(memory, len)| scope.spawn(move || site.assemble_memory(memory, len, None));
        let passed = passed.iter().map(|(memory, len)| (memory, *len));
        let clients: Vec<_> = passed.map(assembled).collect();
        while !clients.iter().all(ScopedJoinHandle::is_finished) {
            peak.fetch_max(private_bytes(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    for answer in answers {
        assert!(matches!(answer, Message::Ingested { .. }), "{answer:?}");
    }
    let grown = peak.into_inner().saturating_sub(before);
    // By the factor that the broker charges for one at a time, and all else here.
    assert!(
        grown < 16 * largest as u64 + (24 << 20),
        "{} MiB",
        grown >> 20
    );
}
