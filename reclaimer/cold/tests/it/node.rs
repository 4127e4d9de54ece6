//! A tensor store with pulled models, and a disk.

use std::path::PathBuf;

use tempfile::TempDir;
use tetris_cold::{ColdLimits, ColdStore, ColdTier, ListedModel, ModelScan};
use tetris_folder::{FolderTable, ModelFolder, TableFile, header_key};
use tetris_loader::PlannedFile;
use tetris_store_layout::{
    Access, CreateOptions, Digest, IdentityBy, IdentityKey, ManifestKind, ObjectId, Store,
    TrustDomain,
};

pub struct Node {
    memory: TempDir,
    disk: TempDir,
    pub warm: Store,
}

impl Node {
    pub fn new() -> Self {
        let memory = TempDir::new_in("/dev/shm").unwrap();
        let warm = Store::create(memory.path().join("0"), &CreateOptions::default()).unwrap();
        Self {
            memory,
            disk: TempDir::new().unwrap(),
            warm,
        }
    }

    /// Another node with the disk of this one, as after a restart of the machine.
    pub fn restarted(self) -> Self {
        let (memory, warm) = {
            let new = Self::new();
            (new.memory, new.warm)
        };
        Self {
            memory,
            warm,
            disk: self.disk,
        }
    }

    pub fn disk(&self) -> PathBuf {
        self.disk.path().join("cold")
    }

    pub fn tier(&self, size: u64) -> ColdTier {
        let limits = ColdLimits {
            bytes: size,
            free_percent: 0,
        };
        ColdTier::new(&self.disk(), limits)
    }

    pub fn cold(&self) -> ColdStore {
        ColdStore::open(&self.disk().join("default")).unwrap()
    }

    /// Puts a model with these files into the store, as a pull does.
    pub fn pull(&self, source: &str, files: &[(&str, &[u8])]) -> ListedModel {
        self.pull_in(TrustDomain::Owner, source, files)
    }

    pub fn pull_in(
        &self,
        domain: TrustDomain,
        source: &str,
        files: &[(&str, &[u8])],
    ) -> ListedModel {
        let publish = |bytes: &[u8]| self.warm.publish(bytes, Access::ReadOnly).unwrap().object;
        let files = files.iter().map(|(path, bytes)| {
            let size = bytes.len() as u64;
            let object = publish(bytes);
            let (manifest, _) = PlannedFile::whole(size).into_manifest(&[object]);
            let id = self.warm.publish_manifest(&manifest).unwrap();
            let by = IdentityBy::Sha256 {
                digest: Digest::of(bytes).0,
                size,
            };
            let kind = ManifestKind::File;
            self.warm.bind(&IdentityKey { kind, by }, id).unwrap();
            TableFile {
                path: (*path).to_owned(),
                size,
                modified: 7,
                manifest: Some(id),
                version: Some(Digest::of(path.as_bytes())),
                header: None,
            }
        });
        let mut files: Vec<_> = files.collect();
        let header = br#"{"__metadata__":{"a":"b"}}"#;
        let key = header_key(ObjectId::of(header)).unwrap().in_domain(domain);
        self.warm.record_derived(&key, publish(header)).unwrap();
        files.push(TableFile {
            path: "zz.safetensors".to_owned(),
            size: header.len() as u64,
            modified: 0,
            manifest: None,
            version: None,
            header: Some(ObjectId::of(header)),
        });
        let table = FolderTable {
            source: source.to_owned(),
            revision: None,
            files,
        };
        let key = FolderTable::key(source).unwrap().in_domain(domain);
        let list = publish(&table.encode().unwrap());
        self.warm.record_derived(&key, list).unwrap();
        let models = ModelScan::default().models(&self.warm).unwrap();
        models
            .into_iter()
            .find(|model| model.record.key == key)
            .unwrap()
    }

    /// The bytes of a file of a pulled model; `None` if the store does not have all of the model.
    pub fn read(&self, source: &str, path: &str) -> Option<Vec<u8>> {
        let folder = ModelFolder::open(source, &[TrustDomain::Owner], &self.warm, 1).ok()?;
        Some(folder.read(path, 0, 1 << 30)?.into_owned())
    }
}

/// Bytes that differ by `seed`.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    tetris_test_support::models::bytes(seed, len)
}

pub fn any_room(_: u64, _: u64) -> bool {
    true
}
