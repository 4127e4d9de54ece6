//! Stores of each released format, which later versions read (docs/compatibility.md).
//!
//! A fixture is a whole store as files, kept as the version wrote it. `UPDATE_FIXTURES=1` writes the one of the current
//! format if there is none, and never changes one.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tetris_store_layout::{
    Access, CreateOptions, DerivedKey, Digest, Dtype, IdentityBy, IdentityKey, Manifest,
    ManifestKind, ManifestObject, ManifestTensor, ObjectKind, Reclaimed, Store, TensorId,
    TensorPlace, Verified, VerifyDepth,
};

/// Folders with fixtures, by format.
const FIXTURES: [&str; 1] = ["format-1"];
/// The one that this version writes.
const CURRENT: &str = "format-1";

/// Bytes of the tensors in the fixtures.
const WEIGHTS: &[u8] = b"sixteen bytes 01sixteen bytes 02";
const CAST: &[u8] = b"eight b.";
const DIGEST: [u8; 32] = [7; 32];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn identity() -> IdentityKey {
    IdentityKey {
        kind: ManifestKind::Safetensors,
        by: IdentityBy::Sha256 {
            digest: DIGEST,
            size: 132,
        },
    }
}

fn cast() -> DerivedKey {
    DerivedKey::new(TensorId::of(WEIGHTS), "cast f32->bf16", 1).unwrap()
}

/// Fills a store with one of each record.
fn fill(store: &Store) {
    let object = store.publish(WEIGHTS, Access::ReadOnly).unwrap().object;
    let manifest = Manifest {
        kind: ManifestKind::Safetensors,
        source_size: 132,
        data_start: 100,
        header_digest: Digest::of(b"header"),
        metadata: vec![("format".to_owned(), "pt".to_owned())],
        objects: vec![ManifestObject {
            object,
            kind: ObjectKind::Tensor,
        }],
        tensors: vec![ManifestTensor {
            name: "layer.0.weight".to_owned(),
            dtype: Dtype::F32,
            shape: vec![2, 4],
            id: TensorId::of(WEIGHTS),
            len: 32,
            source_offset: 0,
            place: Some(TensorPlace {
                object: 0,
                offset: 0,
            }),
        }],
    };
    let id = store.publish_manifest(&manifest).unwrap();
    store.bind(&identity(), id).unwrap();
    let make = || Ok::<_, Infallible>(CAST.to_vec());
    store
        .get_or_create(&cast(), Access::ReadOnly, Duration::ZERO, make)
        .unwrap();
}

/// Copies the files of a store with the modes that it gave them, which a repository does not keep.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if entry.file_name() != KEEP {
            fs::copy(entry.path(), &to).unwrap();
            fs::set_permissions(&to, PermissionsExt::from_mode(0o444)).unwrap();
        }
    }
}

/// File that lets a repository keep an empty folder.
const KEEP: &str = ".keep";

/// Writes the fixture of the current format if there is none.
fn write_current() {
    let kept = fixture(CURRENT);
    if std::env::var_os("UPDATE_FIXTURES").is_none() || kept.exists() {
        return;
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    fill(&Store::create(dir.path(), &CreateOptions::default()).unwrap());
    copy(dir.path(), &kept);
    keep_empty(&kept);
}

fn keep_empty(folder: &Path) {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    if entries.is_empty() {
        fs::write(folder.join(KEEP), "").unwrap();
    }
    for entry in entries.iter().filter(|entry| entry.path().is_dir()) {
        keep_empty(&entry.path());
    }
}

fn opened(name: &str) -> (TempDir, Store) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    copy(&fixture(name), dir.path());
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

#[test]
fn every_format_is_read() {
    write_current();
    for name in FIXTURES {
        let (_dir, store) = opened(name);
        assert_eq!(store.foreign().unwrap(), [], "{name}");
        let id = store.look_up(&identity()).unwrap().unwrap();
        let manifest = store.manifest(id).unwrap().unwrap();
        assert_eq!(manifest.id(), id, "{name}");
        let tensor = &manifest.tensors[0];
        assert_eq!(
            (tensor.name.as_str(), tensor.dtype),
            ("layer.0.weight", Dtype::F32)
        );
        assert_eq!(manifest.metadata, [("format".to_owned(), "pt".to_owned())]);
        let object = manifest.objects[0].object;
        let mapping = store.map(&object, Access::ReadOnly).unwrap().unwrap();
        assert_eq!(&mapping[..], WEIGHTS, "{name}");
        let verified = store.verify(&object, VerifyDepth::Full).unwrap();
        assert_eq!(verified, Verified::Sound, "{name}");
        let derived = store.derived(&cast(), Access::ReadOnly).unwrap().unwrap();
        assert_eq!(&derived.mapping[..], CAST, "{name}");
        assert_eq!(store.reclaim(&object).unwrap(), Reclaimed::Referenced);
        drop(mapping);
        assert_eq!(
            store.reclaim(&object).unwrap(),
            Reclaimed::Freed { bytes: 32 }
        );
    }
}

#[test]
fn every_format_is_written_to() {
    for name in FIXTURES {
        let (_dir, store) = opened(name);
        // The same content makes the same names.
        fill(&store);
        assert_eq!(store.objects().unwrap().objects.len(), 2, "{name}");
        assert_eq!(store.manifests().unwrap().len(), 1, "{name}");
        assert_eq!(store.derived_records().unwrap().len(), 1, "{name}");
        assert_eq!(store.identity_records().unwrap().len(), 1, "{name}");
    }
}
