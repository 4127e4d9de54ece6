//! Publishing of the manifest of a file whose objects are in the store, for a process that can only read it.
//!
//! The process passes the manifest and the header of the file. Both are its word, so the manifest is made again of the header
//! and the objects, and published only if that gives the same. A SHA-256 is computed from the objects before anything is
//! bound to it.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tetris_store_layout::{
    Access, Digest, IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, Mapping,
    ObjectRef, RecordUse, Store,
};

use super::error::{IngestError, too_large};
use super::{HeaderPermit, IngestedFile, with_room};
use crate::error::LoadError;
use crate::header::Header;
use crate::map_limit::MapLimit;
use crate::map_objects::map_objects;
use crate::monitor::ReadMonitor;
use crate::planned_file::PlannedFile;
use crate::stored_file::StoredFile;

/// Longest manifest and header together, in bytes: of some 50,000 tensors.
const MAX_BYTES: u64 = 16 << 20;
/// Name of the passed memory in errors.
const NAME: &str = "passed manifest";

/// The manifest of a file, and the means to publish it.
pub struct AssemblyIngest<'a> {
    /// The store to publish to, writable.
    pub store: &'a Store,
    /// Length of the passed memory in bytes.
    pub len: u64,
    /// Length of the manifest, with which the memory begins. The rest is the file's header.
    pub manifest_len: u64,
    /// SHA-256 of the file, by the process's word.
    pub sha256: Option<[u8; 32]>,
    /// Threads that map objects and hash small tensors.
    pub threads: NonZeroUsize,
    /// Most tensors taken.
    pub max_tensors: usize,
    /// Watches the hashing.
    pub monitor: Arc<ReadMonitor>,
    /// Called when the store is full, with the number of bytes needed; true when some were freed.
    pub make_room: &'a (dyn Fn(u64) -> bool + Sync),
    /// Called before the records of the file are written, with their use of the store; true when they may be.
    pub admit_records: &'a (dyn Fn(RecordUse) -> bool + Sync),
    /// Called before so many bytes are read; it may wait for memory. `None` if there is none.
    pub admit_header: &'a (dyn Fn(u64) -> Option<HeaderPermit<'a>> + Sync),
}

impl AssemblyIngest<'_> {
    /// Proves the manifest, and publishes it. Blocks for as long as a SHA-256 of the file takes.
    ///
    /// # Errors
    /// [`IngestError::Claim`] when the manifest is not that of the header and the objects, [`IngestError::NoObjects`] when
    /// objects are missing, [`IngestError::OtherDigest`] when the file has another SHA-256.
    pub fn run(&self, file: &File) -> Result<IngestedFile, IngestError> {
        if self.len > MAX_BYTES {
            return Err(too_large(
                "bytes of manifest and header",
                self.len,
                MAX_BYTES,
            ));
        }
        let header_len = self.len.checked_sub(self.manifest_len);
        let header_len = header_len.ok_or_else(|| claim("it is longer than the memory"))?;
        let Some(_memory) = (self.admit_header)(self.len) else {
            let text = "the headers of other files take the memory for this manifest";
            return Err(IngestError::NotTaken(text.to_owned()));
        };
        let read = |offset: u64, len: u64| {
            let mut bytes = vec![0; len as usize];
            let read = file.read_exact_at(&mut bytes, offset);
            read.map_err(|error| LoadError::io("read", Path::new(NAME), error))?;
            Ok::<_, IngestError>(bytes)
        };
        let bytes = read(0, self.manifest_len)?;
        let header = read(self.manifest_len, header_len)?;
        let manifest = Manifest::decode(&bytes).map_err(|error| claim(&error.to_string()))?;
        if manifest.tensors.len() > self.max_tensors {
            let count = manifest.tensors.len() as u64;
            return Err(too_large("tensors", count, self.max_tensors as u64));
        }
        if manifest.objects.is_empty() {
            return Err(IngestError::Empty);
        }
        let refs: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
        let objects = self.objects(&refs)?;
        let stored = StoredFile {
            path: Path::new(NAME),
            header: &header,
            manifest: &manifest,
            objects: &objects,
        };
        let planned = self.planned(&manifest, &header, &stored)?;
        let jobs = &planned.plan.jobs;
        let lengths = jobs.iter().map(|job| (job.kind, job.len()));
        let claimed = manifest.objects.iter();
        if !lengths.eq(claimed.map(|entry| (entry.kind, entry.object.len))) {
            return Err(claim("its objects are not those of the header"));
        }
        let id = ManifestId::of(&bytes);
        if planned.into_manifest(&refs).0.id() != id {
            return Err(claim("the header and the objects make another"));
        }
        let sha256 = self.sha256.map(|digest| IdentityKey {
            kind: manifest.kind,
            by: IdentityBy::Sha256 {
                digest,
                size: manifest.source_size,
            },
        });
        let bytes_read = match sha256 {
            Some(key) if !self.is_bound(&key, id) => self.prove(&key, &stored)?,
            _ => 0,
        };
        let records = RecordUse::of_manifest(bytes.len() as u64);
        if !(self.admit_records)(records) {
            let why = "its records are more than the store has room for";
            return Err(IngestError::NotTaken(why.to_owned()));
        }
        with_room(self.make_room, || self.store.publish_manifest(&manifest))?;
        if let Some(key) = sha256 {
            with_room(self.make_room, || self.store.bind(&key, id))?;
        }
        Ok(IngestedFile {
            manifest: id,
            bytes_read,
            _references: objects,
        })
    }

    /// The objects, mapped.
    fn objects(&self, refs: &[ObjectRef]) -> Result<Vec<Mapping>, IngestError> {
        let limit = MapLimit::default();
        let threads = self.threads.get();
        let mapped = map_objects(self.store, refs, Access::ReadOnly, threads, &limit);
        let objects: Vec<Mapping> = mapped.into_iter().flatten().collect();
        if let Some(reason) = limit.reason() {
            return Err(IngestError::NotTaken(reason));
        }
        if objects.len() < refs.len() {
            return Err(IngestError::NoObjects {
                missing: refs.len() - objects.len(),
                all: refs.len(),
            });
        }
        Ok(objects)
    }

    /// The plan of the file, as its own load would make it.
    fn planned(
        &self,
        manifest: &Manifest,
        header: &[u8],
        stored: &StoredFile<'_>,
    ) -> Result<PlannedFile, IngestError> {
        let size = manifest.source_size;
        match manifest.kind {
            ManifestKind::File if header.is_empty() => Ok(PlannedFile::whole(size)),
            ManifestKind::File => Err(claim("a file kept whole has no header")),
            ManifestKind::Safetensors => {
                let parsed =
                    Header::parse(header, size).map_err(|problem| claim(&problem.to_string()))?;
                if parsed.data_start != header.len() as u64 {
                    return Err(claim(
                        "the header is not all of the bytes behind the manifest",
                    ));
                }
                let (header, threads) = (header.to_vec(), self.threads.get());
                let planned = PlannedFile::of_header(parsed, header, size, stored, threads);
                planned.map_err(|_| claim("its tensors do not lie where the header has them"))
            }
        }
    }

    fn is_bound(&self, key: &IdentityKey, manifest: ManifestId) -> bool {
        matches!(self.store.look_up(key), Ok(Some(bound)) if bound == manifest)
    }

    /// Computes the SHA-256 of the file, and returns the number of bytes hashed.
    fn prove(&self, key: &IdentityKey, stored: &StoredFile<'_>) -> Result<u64, IngestError> {
        let IdentityBy::Sha256 { digest, size } = key.by else {
            return Ok(0);
        };
        let computed = stored.sha256(|bytes| {
            if self.monitor.is_cancelled() {
                return Err(IngestError::Cancelled);
            }
            self.monitor.count(bytes);
            Ok(())
        })?;
        if computed != digest {
            return Err(IngestError::OtherDigest {
                expected: Digest(digest).to_string(),
                found: Digest(computed).to_string(),
            });
        }
        Ok(size)
    }
}

fn claim(problem: &str) -> IngestError {
    IngestError::Claim(problem.to_owned())
}
