//! Ingest of an open file for a process that can only read the store.
//!
//! Only the descriptor comes from that process: `fstat` gives the file's identity.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::compare;
use crate::error::{LoadError, LoadFailure};
use crate::header::{HeaderError, HeaderProblem, LENGTH_FIELD_LEN};
use crate::map_limit::MapLimit;
use crate::map_objects::map_objects;
use crate::monitor::ReadMonitor;
use crate::pipeline::Pipeline;
use crate::planned_file::PlannedFile;
use crate::recognized::{Recognized, disown};
use crate::source::Source;
use tetris_store_layout::{
    Access, FileIdentity, LastPath, MAX_OBJECTS, Manifest, ManifestId, ManifestKind, Mapping,
    ObjectRef, PublishError, RecordUse, Store,
};

mod assembly;
mod error;
mod memory;

pub use assembly::AssemblyIngest;
pub use error::IngestError;
use error::too_large;
pub use memory::{IngestedMemory, MemoryIngest};

/// Longest wait for an agent that reads the same file just now.
const WAIT: Duration = Duration::from_secs(10);
/// Most times that room is made for a record.
const ROOM_ATTEMPTS: u32 = 16;
/// Name of the file in errors: its path is not known.
const NAME: &str = "passed file";
/// Length of the shortest entry of a tensor in a header, in bytes:
/// `"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}` and a comma, rounded down.
const LEAST_ENTRY_BYTES: u64 = 48;
/// A file on a tmpfs takes whole pages of this length, in bytes.
const PAGE: u64 = 4096;
/// Longest header in bytes: some 100,000 tensors. What becomes of it takes several times as much memory.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// One ingest: a file, and the means to publish it.
pub struct IngestJob<'a> {
    /// The store to publish to, writable.
    pub store: &'a Store,
    /// Kind of the manifest to make.
    pub kind: ManifestKind,
    /// Identity that the file was found to have.
    pub identity: FileIdentity,
    /// Threads that read and hash.
    pub threads: NonZeroUsize,
    /// Most tensors that are taken.
    pub max_tensors: usize,
    /// Watches the reading.
    pub monitor: Arc<ReadMonitor>,
    /// Called when the store is full, with the number of bytes needed; true when some were freed.
    pub make_room: &'a (dyn Fn(u64) -> bool + Sync),
    /// Called before the records of a file are written, with their use of the store; true when they may
    /// be.
    pub admit_records: &'a (dyn Fn(RecordUse) -> bool + Sync),
    /// Called before a header of so many bytes is read; it may wait for memory. `None` if there is none.
    pub admit_header: &'a (dyn Fn(u64) -> Option<HeaderPermit<'a>> + Sync),
}

/// Permission to have a header, and what becomes of it, in memory until this is dropped.
pub type HeaderPermit<'a> = Box<dyn Send + 'a>;

/// Files that a store lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingFiles {
    /// Memory that they will occupy, in bytes.
    pub bytes: u64,
    /// Their number.
    pub files: u64,
}

/// A file that is recognized, with its objects.
struct KnownFile {
    id: ManifestId,
    objects: Vec<ObjectRef>,
    /// Mappings of the objects that are in the store.
    mapped: Vec<Option<Mapping>>,
}

/// A file that is in the store, and referenced there while this lives.
#[derive(Debug)]
pub struct IngestedFile {
    /// Its manifest.
    pub manifest: ManifestId,
    /// Bytes of tensor data that were read; 0 when it was known.
    pub bytes_read: u64,
    _references: Vec<Mapping>,
}

impl IngestJob<'_> {
    /// Reads, hashes and publishes `file`, or finds it in the store. Blocks for as long as reading does.
    ///
    /// # Errors
    /// The file is not in the store afterwards. Some of its objects may be, unreferenced: the reclaimer
    /// frees them.
    pub fn run(&self, file: &File) -> Result<IngestedFile, IngestError> {
        let published = self.unless_cancelled(self.publish(file))?;
        let path = || LastPath::of_file(file);
        self.store.note_last_path(published.manifest, path);
        Ok(published)
    }

    /// Checks the length of the header, before the header is read: it may be too long, or all of the
    /// file. Returns the most objects that the file can become.
    ///
    /// # Errors
    /// [`IngestError::TooLarge`], [`IngestError::Empty`], and when the file cannot be read.
    pub fn check_length(&self, file: &File) -> Result<u64, IngestError> {
        let size = self.identity.size;
        if self.kind == ManifestKind::File {
            return if size == 0 {
                Err(IngestError::Empty)
            } else {
                Ok(1)
            };
        }
        // A length beyond the file is an invalid header, which the reader reports.
        let Some(found) = self.header_len(file)? else {
            return Ok(0);
        };
        // Checked before the header is read: its memory is the reader's.
        if found > MAX_HEADER_BYTES {
            return Err(too_large("bytes of header", found, MAX_HEADER_BYTES));
        }
        if found == size - LENGTH_FIELD_LEN {
            return Err(IngestError::Empty);
        }
        // A tensor has an entry in the header, and a byte behind it.
        let data = size - LENGTH_FIELD_LEN - found;
        let most = (found / LEAST_ENTRY_BYTES + 1).min(data);
        Ok(most.min(MAX_OBJECTS as u64))
    }

    fn unless_cancelled<T>(&self, result: Result<T, IngestError>) -> Result<T, IngestError> {
        if self.monitor.is_cancelled() && result.is_err() {
            return Err(IngestError::Cancelled);
        }
        result
    }

    /// The objects and records that `file` needs and the store does not have. Reads and hashes an
    /// unknown file for that, and publishes nothing of it. Blocks for as long as reading does.
    ///
    /// # Errors
    /// As [`IngestJob::run`].
    pub fn missing(&self, file: &File) -> Result<MissingFiles, IngestError> {
        let (mut objects, records) = self.unless_cancelled(self.parts(file))?;
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup();
        let missing = objects.iter().filter(|object| !self.store.contains(object));
        let of_records = MissingFiles {
            bytes: records.bytes,
            files: records.files,
        };
        Ok(missing.fold(of_records, |sum, object| MissingFiles {
            bytes: sum.bytes.saturating_add(in_pages(object.len)),
            files: sum.files.saturating_add(1),
        }))
    }

    /// The objects of a file, and the use that its records will make of the store.
    fn parts(&self, file: &File) -> Result<(Vec<ObjectRef>, RecordUse), IngestError> {
        let source = self.source(file)?;
        if let Some(known) = self.recognized(&source)? {
            return Ok((known.objects, RecordUse::default()));
        }
        let _memory = self.header_permit(source.file())?;
        let read = self.file_read(&source)?;
        let run = self.pipeline(&source, &read, None).run()?;
        let objects = run.objects.iter().map(|hashed| hashed.object).collect();
        let manifest = read.into_manifest(&run.refs()).0;
        let records = RecordUse::of_manifest(manifest.encode().len() as u64);
        Ok((objects, records))
    }

    fn source(&self, file: &File) -> Result<Source, IngestError> {
        let name = Path::new(NAME);
        let file = file
            .try_clone()
            .map_err(|error| LoadError::io("duplicate", name, error))?;
        let source = Source::of_file(file, name, Some(Arc::clone(&self.monitor)))?;
        if *source.identity() == self.identity {
            Ok(source)
        } else {
            Err(IngestError::Changed)
        }
    }

    fn publish(&self, file: &File) -> Result<IngestedFile, IngestError> {
        let source = self.source(file)?;
        // A file without an identity stays unknown, and no other process waits for it.
        let Some(key) = source.stat_key(self.kind) else {
            return self.unknown(&source);
        };
        if let Some(known) = self.known(&source)? {
            return Ok(known);
        }
        let known = || matches!(self.store.look_up(&key), Ok(Some(_)));
        let give_up = || self.monitor.is_cancelled() || known();
        let lock = self.store.creation_lock(&key.id().0, WAIT, give_up);
        if (lock.is_some() || known())
            && let Some(known) = self.known(&source)?
        {
            return Ok(known);
        }
        self.unknown(&source)
    }

    /// The file as it is in the store, if all of it is.
    fn known(&self, source: &Source) -> Result<Option<IngestedFile>, IngestError> {
        let Some(known) = self.recognized(source)? else {
            return Ok(None);
        };
        let references = known.mapped.into_iter().collect::<Option<_>>();
        let published = references.map(|references| IngestedFile {
            manifest: known.id,
            bytes_read: 0,
            _references: references,
        });
        if published.is_some() {
            self.store.touch_manifest(known.id);
        }
        Ok(published)
    }

    /// The manifest that the file is bound to, if the objects in the store agree with the file (INV-11).
    fn recognized(&self, source: &Source) -> Result<Option<KnownFile>, IngestError> {
        let Some((id, manifest)) = self.bound(source) else {
            return Ok(None);
        };
        let objects: Vec<_> = manifest.objects.iter().map(|entry| entry.object).collect();
        let limit = MapLimit::default();
        let threads = self.threads.get();
        let mapped = map_objects(self.store, &objects, Access::ReadOnly, threads, &limit);
        let object = |index: u32| mapped.get(index as usize)?.as_deref();
        if !compare::agrees(source, &manifest, object)? {
            disown(self.store, source, self.kind, Recognized::ByStat);
            return Ok(None);
        }
        Ok(Some(KnownFile {
            id,
            objects,
            mapped,
        }))
    }

    fn bound(&self, source: &Source) -> Option<(ManifestId, Manifest)> {
        let id = self.store.look_up(&source.stat_key(self.kind)?).ok()??;
        Some((id, self.store.manifest(id).ok()??))
    }

    /// Checks the length of the header, and waits for memory for it.
    fn header_permit(&self, file: &File) -> Result<Option<HeaderPermit<'_>>, IngestError> {
        self.check_length(file)?;
        let len = match self.kind {
            ManifestKind::File => return Ok(None),
            ManifestKind::Safetensors => self.header_len(file)?.unwrap_or(0),
        };
        match (self.admit_header)(len) {
            Some(permit) => Ok(Some(permit)),
            None => Err(IngestError::NotTaken(format!(
                "the headers of other files take the memory for one of {len} bytes"
            ))),
        }
    }

    /// The length of the header as the file states it; `None` if that is beyond the file.
    fn header_len(&self, file: &File) -> Result<Option<u64>, IngestError> {
        let Some(rest) = self.identity.size.checked_sub(LENGTH_FIELD_LEN) else {
            return Ok(None);
        };
        let mut len = [0; LENGTH_FIELD_LEN as usize];
        let read = file.read_exact_at(&mut len, 0);
        read.map_err(|error: io::Error| LoadError::io("read", Path::new(NAME), error))?;
        Ok(Some(u64::from_le_bytes(len)).filter(|len| *len <= rest))
    }

    fn file_read(&self, source: &Source) -> Result<PlannedFile, IngestError> {
        let most = self.max_tensors;
        let read = PlannedFile::within(source, self.kind, self.threads.get(), most);
        read.map_err(|failure| match failure {
            LoadFailure::Load(LoadError::Header(HeaderError::Invalid {
                source: HeaderProblem::TooManyTensors { limit },
                ..
            })) => too_large("tensors or more", limit.saturating_add(1), limit),
            failure => failure.into(),
        })
    }

    fn pipeline<'a>(
        &'a self,
        source: &'a Source,
        read: &'a PlannedFile,
        store: Option<&'a Store>,
    ) -> Pipeline<'a> {
        Pipeline {
            source,
            jobs: &read.plan.jobs,
            store,
            known_missing: false,
            access: Access::ReadOnly,
            threads: self.threads.get(),
            progress: None,
            make_room: self.make_room,
        }
    }

    fn unknown(&self, source: &Source) -> Result<IngestedFile, IngestError> {
        let _memory = self.header_permit(source.file())?;
        let read = self.file_read(source)?;
        let run = self.pipeline(source, &read, Some(self.store)).run()?;
        let manifest = read.into_manifest(&run.refs()).0;
        let mapped = run.objects.into_iter().map(|hashed| hashed.mapping);
        let references = mapped.map(|mapping| mapping.map(|(mapping, _)| mapping));
        let Some(references) = references.collect::<Option<_>>() else {
            let why = run.refused.map_or_else(
                || "no reason is known".to_owned(),
                |error| error.to_string(),
            );
            return Err(IngestError::NotTaken(why));
        };
        let bindable = source.require_unchanged()?;
        let id = self.record(source, &manifest, bindable)?;
        Ok(IngestedFile {
            manifest: id,
            bytes_read: run.bytes_read,
            _references: references,
        })
    }

    fn record(
        &self,
        source: &Source,
        manifest: &Manifest,
        bindable: bool,
    ) -> Result<ManifestId, IngestError> {
        if manifest.objects.is_empty() {
            return Err(IngestError::Empty);
        }
        let records = RecordUse::of_manifest(manifest.encode().len() as u64);
        if !(self.admit_records)(records) {
            let why = "its records are more than the store has room for";
            return Err(IngestError::NotTaken(why.to_owned()));
        }
        let id = with_room(self.make_room, || self.store.publish_manifest(manifest))?;
        if bindable
            && let Some(key) = source.stat_key(self.kind)
            && let Err(error) = with_room(self.make_room, || self.store.bind(&key, id))
        {
            // The file is in the store, and will be read again the next time.
            tracing::debug!(%error, "identity not bound");
        }
        Ok(id)
    }
}

/// Publishes a record, and makes room for it again while others take that away, a limited number of times.
fn with_room<T>(
    make_room: &(dyn Fn(u64) -> bool + Sync),
    publish: impl Fn() -> Result<T, PublishError>,
) -> Result<T, PublishError> {
    for _ in 0..ROOM_ATTEMPTS {
        match publish() {
            Err(error) if error.is_full() && make_room(1) => {}
            result => return result,
        }
    }
    publish()
}

/// Memory that a file of `len` bytes occupies.
fn in_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}
