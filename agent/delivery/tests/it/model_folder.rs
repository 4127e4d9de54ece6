//! Pulled models as folders: the bytes of their sources, composed of what is in the store.

use std::path::Path;

use tetris_delivery::{Destination, PullOptions, PullReport, SourceName, pull};
use tetris_folder::{FolderError, FolderTable, ModelFolder, TableFile, find_header};
use tetris_store_layout::{Access, ObjectId, Reclaimed, Store, TrustDomain};
use tetris_test_support::models::{Fixture, bytes, write_f32};

/// A folder of this machine, pulled.
struct Pulled {
    fixture: Fixture,
    source: SourceName,
}

impl Pulled {
    fn new() -> Self {
        let fixture = Fixture::new();
        let dir = fixture.dir().join("model");
        std::fs::create_dir_all(dir.join("tokenizer")).unwrap();
        // Packs, tensors with an object each, one without elements, and some whose ends are not aligned.
        let tensors: Vec<_> = [40, 300_000, 0, 8, 70_000, 4, 5_000_000, 12]
            .into_iter()
            .enumerate()
            .map(|(index, len)| (format!("t{index}"), bytes(index as u64, len)))
            .collect();
        write_f32(&dir.join("model.safetensors"), &tensors);
        write_f32(&dir.join("empty.safetensors"), &[]);
        std::fs::write(dir.join("config.json"), r#"{"a": 1}"#).unwrap();
        std::fs::write(dir.join("tokenizer/vocab.txt"), bytes(9, 100_000)).unwrap();
        std::fs::write(dir.join("nothing"), "").unwrap();
        let source = dir.to_str().unwrap().parse().unwrap();
        let pulled = Self { fixture, source };
        pulled.pull();
        pulled
    }

    fn store(&self) -> &Store {
        self.fixture.store()
    }

    fn pull(&self) -> PullReport {
        let options = PullOptions::default();
        pull(
            &self.source,
            Destination::writable(self.store(), &|_| false),
            &options,
        )
        .unwrap()
    }

    fn open(&self) -> Result<ModelFolder, FolderError> {
        ModelFolder::open(
            &self.source.stored_name(),
            &[TrustDomain::Owner],
            self.store(),
            2,
        )
    }

    fn dir(&self) -> &Path {
        self.fixture.dir()
    }
}

#[test]
fn each_file_of_a_folder_has_the_bytes_of_its_source() {
    let pulled = Pulled::new();
    let folder = pulled.open().unwrap();
    let files: Vec<_> = folder.files().collect();
    let paths: Vec<_> = files.iter().map(|(path, _)| *path).collect();
    assert_eq!(
        paths,
        [
            "config.json",
            "empty.safetensors",
            "model.safetensors",
            "nothing",
            "tokenizer/vocab.txt"
        ]
    );
    for (path, size) in files {
        let source = std::fs::read(pulled.dir().join("model").join(path)).unwrap();
        assert_eq!(source.len() as u64, size, "{path}");
        let read = |offset, len| folder.read(path, offset, len).unwrap();
        assert!(*read(0, source.len()) == source[..], "{path}");
        // Pieces that begin and end anywhere, over the borders of header, packs and objects.
        for len in [1, 7, 4096, 1 << 20] {
            for offset in (0..source.len() + 10).step_by(source.len() / 50 + 1) {
                let from = offset.min(source.len());
                let to = (offset + len).min(source.len());
                assert!(
                    *read(offset as u64, len) == source[from..to],
                    "{path}: {offset} {len}"
                );
            }
        }
        assert!(read(u64::MAX, usize::MAX).is_empty());
    }
    assert_eq!(folder.read("tokenizer", 0, 1), None);
}

#[test]
fn an_open_folder_keeps_its_model_and_another_pull_completes_it() {
    let pulled = Pulled::new();
    let folder = pulled.open().unwrap();
    let reclaim = || {
        let objects = pulled.store().objects().unwrap().objects;
        let freed = objects.iter().filter(|entry| {
            let reclaimed = pulled.store().reclaim(&entry.object).unwrap();
            matches!(reclaimed, Reclaimed::Freed { .. })
        });
        freed.count()
    };
    // The list of its files among the objects, so that others can open it as well.
    assert_eq!(reclaim(), 0);
    assert!(folder.read("model.safetensors", 0, 1 << 20).is_some());
    pulled.open().unwrap();
    drop(folder);
    let largest = pulled.store().objects().unwrap().objects;
    let largest = largest.iter().max_by_key(|entry| entry.object.len).unwrap();
    pulled.store().reclaim(&largest.object).unwrap();
    let error = pulled.open().unwrap_err().to_string();
    assert!(
        error.contains("`model.safetensors`") && error.contains("1 of 4 objects were freed"),
        "{error}"
    );
    let report = pulled.pull();
    let new = report.files.iter().map(|file| file.new_objects);
    assert_eq!(new.sum::<usize>(), 1);
    assert_eq!(pulled.open().unwrap().file_count(), 5);
}

#[test]
fn headers_are_found_by_any_name_of_a_file() {
    let pulled = Pulled::new();
    let copy = pulled.dir().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let model = pulled.dir().join("model/model.safetensors");
    std::fs::copy(&model, copy.join("model.safetensors")).unwrap();
    let source: SourceName = copy.to_str().unwrap().parse().unwrap();
    pull(
        &source,
        Destination::writable(pulled.store(), &|_| false),
        &PullOptions::default(),
    )
    .unwrap();
    let folder = ModelFolder::open(
        &source.stored_name(),
        &[TrustDomain::Owner],
        pulled.store(),
        1,
    )
    .unwrap();
    let source = std::fs::read(&model).unwrap();
    assert!(*folder.read("model.safetensors", 0, source.len()).unwrap() == source[..]);
    let header_len = 8 + u64::from_le_bytes(source[..8].try_into().unwrap()) as usize;
    let header = find_header(
        ObjectId::of(&source[..header_len]),
        &[TrustDomain::Owner],
        pulled.store(),
    )
    .unwrap();
    assert!(*header == source[..header_len]);
    assert!(
        find_header(
            ObjectId::of(b"another"),
            &[TrustDomain::Owner],
            pulled.store()
        )
        .is_none()
    );
}

#[test]
fn a_table_that_does_not_fit_its_manifests_is_refused() {
    let pulled = Pulled::new();
    let name = pulled.source.stored_name();
    let table = FolderTable::find(&name, &[TrustDomain::Owner], pulled.store())
        .unwrap()
        .unwrap();
    let changed = |change: fn(&mut TableFile)| {
        let mut table = table.clone();
        change(&mut table.files[2]);
        let bytes = table.encode().unwrap();
        let object = pulled.store().publish(&bytes, Access::ReadOnly).unwrap();
        let key = FolderTable::key(&name).unwrap();
        pulled.store().record_derived(&key, object.object).unwrap();
        pulled.open().unwrap_err().to_string()
    };
    for error in [
        changed(|file| file.size += 1),
        changed(|file| file.header = None),
        changed(|file| file.header = Some(ObjectId::of(br#"{"a": 1}"#))),
    ] {
        let is_named = error.contains("`model.safetensors`") && error.contains("pull it again");
        assert!(is_named, "{error}");
    }
    pulled.pull();
    assert!(pulled.open().is_ok());
}
