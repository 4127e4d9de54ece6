//! Publishing an open file for a process that can only read the store.
//!
//! Nothing is taken from that process but the descriptor: what the file is, `fstat` says.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::{
    Access, FileIdentity, IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, Mapping,
    ObjectRef, PublishError, Store,
};
use thiserror::Error;

use crate::attach::map_all;
use crate::error::LoadError;
use crate::header::LENGTH_FIELD_LEN;
use crate::map_limit::MapLimit;
use crate::pipeline::Pipeline;
use crate::source::{Failure, Source};
use crate::unknown::FileRead;

pub use crate::source::Monitor;

/// Longest wait for an agent that reads the same file just now.
const WAIT: Duration = Duration::from_secs(10);
/// How often room is made for a record.
const ROOM_ATTEMPTS: u32 = 16;
/// What errors call the file, whose path is not known.
const NAME: &str = "passed file";
/// Longest header in bytes: some 200,000 tensors. Its JSON takes several times as much memory.
const MAX_HEADER_BYTES: u64 = 32 << 20;

/// How a file is to be published.
pub struct Ingest<'a> {
    /// Where to, writable.
    pub store: &'a Store,
    /// What is to be made of it.
    pub kind: ManifestKind,
    /// What the file was found to be.
    pub identity: FileIdentity,
    /// Whether its identity may be bound: whether the kernel, and nobody else, says what it is.
    pub bind: bool,
    /// Threads that read and hash.
    pub threads: NonZeroUsize,
    /// The most tensors.
    pub max_tensors: usize,
    /// Watches the reading.
    pub monitor: Arc<Monitor>,
    /// Called when the store is full, with the bytes needed; `true` when some were freed.
    pub make_room: &'a (dyn Fn(u64) -> bool + Sync),
}

/// A file that is in the store, and referenced there while this lives.
#[derive(Debug)]
pub struct Published {
    /// What it consists of.
    pub manifest: ManifestId,
    /// Bytes of tensor data that were read; 0 when it was known.
    pub bytes_read: u64,
    _references: Vec<Mapping>,
}

/// A file was not published.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IngestError {
    /// It was cancelled.
    #[error("nobody waits for the file any more")]
    Cancelled,
    /// The file changed meanwhile.
    #[error("the file changed while it was read; load it when it is written completely")]
    Changed,
    /// The file has too many tensors, or too long a header.
    #[error("the file has {found} {what}, at most {most} are taken")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        most: u64,
    },
    /// The file cannot be read, or is not what it should be.
    #[error(transparent)]
    Load(LoadError),
    /// The store did not take it.
    #[error("the store did not take the file: {0}")]
    NotTaken(String),
    /// The store did not take what describes it.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<Failure> for IngestError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Changed => Self::Changed,
            Failure::Load(error) => Self::Load(error),
        }
    }
}

impl From<LoadError> for IngestError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl Ingest<'_> {
    /// Reads, hashes and publishes `file`, or finds it in the store. Blocks for as long as reading does.
    ///
    /// # Errors
    /// When the file is not in the store afterwards. Objects may be: unreferenced ones, for the reclaimer.
    pub fn run(&self, file: &File) -> Result<Published, IngestError> {
        self.unless_cancelled(self.publish(file))
    }

    fn unless_cancelled<T>(&self, result: Result<T, IngestError>) -> Result<T, IngestError> {
        if self.monitor.is_cancelled() && result.is_err() {
            return Err(IngestError::Cancelled);
        }
        result
    }

    /// Bytes of objects that `file` needs and the store has not got. Unless the file is known it is read and hashed for that, and nothing
    /// of it is published. Blocks for as long as reading does.
    ///
    /// # Errors
    /// As [`Ingest::run`].
    pub fn missing_bytes(&self, file: &File) -> Result<u64, IngestError> {
        let mut objects = self.unless_cancelled(self.objects(file))?;
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup();
        let missing = objects.iter().filter(|object| !self.store.contains(object));
        Ok(missing
            .map(|object| object.len)
            .fold(0, u64::saturating_add))
    }

    fn objects(&self, file: &File) -> Result<Vec<ObjectRef>, IngestError> {
        let source = self.source(file)?;
        if let Some((_, manifest)) = self.known_manifest() {
            let objects = manifest.objects.iter().map(|entry| entry.object);
            return Ok(objects.collect());
        }
        self.check_header_length(&source)?;
        let read = self.file_read(&source)?;
        let run = self.pipeline(&source, &read, None).run()?;
        Ok(run.objects.iter().map(|hashed| hashed.object).collect())
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

    fn publish(&self, file: &File) -> Result<Published, IngestError> {
        let source = self.source(file)?;
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let key = self.key();
        let known = || matches!(self.store.look_up(&key), Ok(Some(_)));
        let give_up = || self.monitor.is_cancelled() || known();
        let lock = self.store.creation_lock(&key.id().0, WAIT, give_up);
        if (lock.is_some() || known())
            && let Some(known) = self.known()
        {
            return Ok(known);
        }
        self.unknown(&source)
    }

    fn key(&self) -> IdentityKey {
        IdentityKey {
            kind: self.kind,
            by: IdentityBy::Stat(self.identity),
        }
    }

    /// The file as it is in the store, if all of it is.
    fn known(&self) -> Option<Published> {
        let (id, manifest) = self.known_manifest()?;
        let objects: Vec<_> = manifest.objects.iter().map(|entry| entry.object).collect();
        let limit = MapLimit::default();
        let threads = self.threads.get();
        let mapped = map_all(self.store, &objects, Access::ReadOnly, threads, &limit);
        let references = mapped.into_iter().collect::<Option<_>>()?;
        self.store.touch_manifest(id);
        Some(Published {
            manifest: id,
            bytes_read: 0,
            _references: references,
        })
    }

    fn known_manifest(&self) -> Option<(ManifestId, Manifest)> {
        let id = self.store.look_up(&self.key()).ok()??;
        Some((id, self.store.manifest(id).ok()??))
    }

    fn file_read(&self, source: &Source) -> Result<FileRead, IngestError> {
        let read = FileRead::within(source, self.kind, self.threads.get(), self.max_tensors)?;
        if read.tensors() > self.max_tensors {
            let (found, most) = (read.tensors() as u64, self.max_tensors as u64);
            return Err(too_large("tensors", found, most));
        }
        Ok(read)
    }

    fn pipeline<'a>(
        &'a self,
        source: &'a Source,
        read: &'a FileRead,
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

    fn unknown(&self, source: &Source) -> Result<Published, IngestError> {
        self.check_header_length(source)?;
        let read = self.file_read(source)?;
        let run = self.pipeline(source, &read, Some(self.store)).run()?;
        let manifest = read.into_manifest(&run).0;
        let mapped = run.objects.into_iter().map(|hashed| hashed.mapping);
        let references = mapped.map(|mapping| mapping.map(|(mapping, _)| mapping));
        let Some(references) = references.collect::<Option<_>>() else {
            let why = run
                .refused
                .unwrap_or_else(|| "no reason is known".to_owned());
            return Err(IngestError::NotTaken(why));
        };
        let bindable = source.require_unchanged()? && self.bind;
        let id = self.record(&manifest, bindable)?;
        Ok(Published {
            manifest: id,
            bytes_read: run.bytes_read,
            _references: references,
        })
    }

    fn record(&self, manifest: &Manifest, bindable: bool) -> Result<ManifestId, PublishError> {
        let id = self.with_room(|| self.store.publish_manifest(manifest))?;
        if bindable && let Err(error) = self.with_room(|| self.store.bind(&self.key(), id)) {
            // The file is in the store, and will be read again the next time.
            tracing::debug!(%error, "identity not bound");
        }
        Ok(id)
    }

    /// Makes room for one file as often as others take that away again, within bounds.
    fn with_room<T>(
        &self,
        publish: impl Fn() -> Result<T, PublishError>,
    ) -> Result<T, PublishError> {
        for _ in 0..ROOM_ATTEMPTS {
            match publish() {
                Err(error) if error.is_full() && (self.make_room)(1) => {}
                result => return result,
            }
        }
        publish()
    }

    /// Checked before the header is read: what it takes in memory is the reader's.
    fn check_header_length(&self, source: &Source) -> Result<(), IngestError> {
        if self.kind == ManifestKind::File || self.identity.size < LENGTH_FIELD_LEN {
            return Ok(());
        }
        let mut len = [0; LENGTH_FIELD_LEN as usize];
        let read = source.file().read_exact_at(&mut len, 0);
        read.map_err(|error: io::Error| LoadError::io("read", source.path(), error))?;
        let found = u64::from_le_bytes(len);
        // A length beyond the file is no header at all, which is said elsewhere.
        if found > MAX_HEADER_BYTES && found <= self.identity.size {
            return Err(too_large("bytes of header", found, MAX_HEADER_BYTES));
        }
        Ok(())
    }
}

fn too_large(what: &'static str, found: u64, most: u64) -> IngestError {
    IngestError::TooLarge { what, found, most }
}
