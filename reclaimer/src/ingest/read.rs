//! The thread of a job: tetris-agent's pipeline, and room for it.

use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tetris_loader::ingest::{HeaderPermit, IngestError, IngestJob};
use tetris_loader::{LoadError, ReadMonitor};
use tetris_reclaimer_core::Space;
use tetris_store_layout::{ManifestKind, RecordUse};
use tetris_wire::daemon::{IngestReason, IngestRefusal};

use super::descriptor::Checked;
use super::finished::Finished;
use super::header_memory::HeaderMemory;
use super::schedule::Key;
use super::{AskRoom, IngestRequest, PassedFile, TargetStore, refusal};
use crate::room::{RoomNeed, RoomRefusal, RoomResult};

/// Threads that read from a file system that may hang with all of them.
const REMOTE_THREADS: usize = 8;
const MAX_THREADS: usize = 32;
/// Bytes of pages that a manifest's end and an identity take.
const RECORD_PAGES: u64 = 2 * PAGE;
/// Inodes of a manifest, an identity and a hint.
const RECORD_INODES: u64 = 3;
/// A file on a tmpfs takes whole pages of this length, in bytes.
const PAGE: u64 = 4096;
/// Longest wait for the engine's answer.
const ROOM_WAIT: Duration = Duration::from_secs(30);

/// A file for a thread to read.
pub(super) struct Work {
    /// None for the record of a derived tensor.
    pub(super) passed: Option<PassedFile>,
    pub(super) target: TargetStore,
    pub(super) key: Key,
    pub(super) checked: Checked,
    pub(super) max_tensors: usize,
    /// Limits of the store's records.
    pub(super) record_limits: RecordUse,
    /// Threads that may read.
    pub(super) threads: NonZeroUsize,
    /// Reserves room in the store; returns the room that the store needs, if it must ask first.
    pub(super) reserve: Box<dyn Fn(Space) -> Option<Space> + Send + Sync>,
    /// Called by the engine when it has granted the reserved room.
    pub(super) granted: Arc<dyn Fn() + Send + Sync>,
    pub(super) monitor: Arc<ReadMonitor>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) room: Arc<AskRoom>,
    pub(super) headers: Arc<HeaderMemory>,
}

/// Signs of life of a reading thread, besides its count of bytes.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Grows while room is made, which is no standstill.
    beats: AtomicU64,
    /// True if the file is read twice: to find the missing objects, and to publish them.
    twice: AtomicBool,
}

impl Pulse {
    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    pub(super) fn passes(&self) -> u64 {
        1 + u64::from(self.twice.load(Ordering::Relaxed))
    }
}

/// The first refusal of the engine, which is the reason that an ingest fails.
#[derive(Default)]
pub(super) struct FirstRefusal(Mutex<Option<IngestRefusal>>);

impl FirstRefusal {
    /// Keeps a refusal; returns true if there is none.
    pub(super) fn note(&self, had: Result<(), IngestRefusal>) -> bool {
        let Err(refusal) = had else {
            return true;
        };
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get_or_insert(refusal);
        false
    }

    /// The result, with this refusal in the place of another reason.
    pub(super) fn or<T>(self, result: Result<T, IngestError>) -> Result<T, IngestRefusal> {
        let noted = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.map_err(|error| noted.unwrap_or_else(|| refusal_of(&error)))
    }
}

impl Work {
    /// Reads, hashes and publishes. The descriptor is closed when it ends.
    pub(super) fn run(self) -> Result<Finished, IngestRefusal> {
        match (&self.key.request, &self.passed) {
            (IngestRequest::File(kind), Some(passed)) => self.run_file(*kind, &passed.file),
            (IngestRequest::Memory(object), Some(passed)) => self.run_memory(*object, &passed.file),
            (IngestRequest::Assembly(assembly), Some(passed)) => {
                self.run_assembly(*assembly, &passed.file)
            }
            (IngestRequest::Derived(record), _) => self.run_derived(record),
            (_, None) => {
                let text = "nothing was passed (this is a bug)";
                Err(refusal(IngestReason::UNAVAILABLE, text))
            }
        }
    }

    fn run_file(&self, kind: ManifestKind, file: &File) -> Result<Finished, IngestRefusal> {
        let refused = FirstRefusal::default();
        let noted = |had| {
            let is_had = refused.note(had);
            if !is_had {
                // What follows would be read in vain.
                self.monitor.cancel();
            }
            is_had
        };
        let make_room = |bytes| noted(self.have_room(Space::of_bytes(bytes)));
        let admit_records = |records| noted(self.have_room_for_records(records));
        let admit_header = |len| self.admit_header(len);
        let ingest = self.ingest(kind, &make_room, &admit_records, &admit_header);
        // Before anything goes for a file of which nothing is published.
        let checked = ingest.check_length(file);
        let most_objects = checked.map_err(|error| refusal_of(&error))?;
        self.have_room_first(kind, file, most_objects)?;
        let result = ingest.run(file);
        Ok(refused.or(result)?.into())
    }

    fn ingest<'a>(
        &'a self,
        kind: ManifestKind,
        make_room: &'a (dyn Fn(u64) -> bool + Sync),
        admit_records: &'a (dyn Fn(RecordUse) -> bool + Sync),
        admit_header: &'a (dyn Fn(u64) -> Option<HeaderPermit<'a>> + Sync),
    ) -> IngestJob<'a> {
        IngestJob {
            store: &self.target.store,
            kind,
            identity: self.checked.identity,
            threads: self.threads(),
            max_tensors: self.max_tensors,
            monitor: Arc::clone(&self.monitor),
            make_room,
            admit_records,
            admit_header,
        }
    }

    /// Waits for memory for a header of `len` bytes. Waiting is no standstill.
    pub(super) fn admit_header(&self, len: u64) -> Option<HeaderPermit<'_>> {
        let goes_on = || {
            self.pulse.beats.fetch_add(1, Ordering::Relaxed);
            !self.monitor.is_cancelled()
        };
        let admitted = self.headers.admit(&self.target.name, len, goes_on)?;
        Some(Box::new(admitted))
    }

    /// Has room for the whole file in a store that must ask first. If there is none, the file is
    /// read for what of it is missing: it may be a copy of one that is there, or share most of its
    /// tensors with one. A sparse file counts with its stated length: its pages would be real.
    fn have_room_first(
        &self,
        kind: ManifestKind,
        file: &File,
        most_objects: u64,
    ) -> Result<(), IngestRefusal> {
        let size = Space {
            // Nearly always the file's header and two pages hold what its records take.
            bytes: self
                .checked
                .identity
                .size
                .saturating_add(RECORD_PAGES)
                .saturating_add(most_objects.saturating_mul(PAGE)),
            inodes: most_objects.saturating_add(RECORD_INODES),
        };
        let Some(whole) = (self.reserve)(size) else {
            return Ok(());
        };
        let Err(refused) = self.have_room(whole) else {
            return Ok(());
        };
        self.pulse.twice.store(true, Ordering::Relaxed);
        let admit_header = |len| self.admit_header(len);
        let ingest = self.ingest(kind, &|_| false, &|_| false, &admit_header);
        let missing = ingest.missing(file);
        let missing = missing.map_err(|error| refusal_of(&error))?;
        let missing = Space {
            bytes: missing.bytes,
            // With a hint at the path.
            inodes: missing.files.saturating_add(u64::from(missing.files > 0)),
        };
        match (self.reserve)(missing) {
            _ if missing.bytes >= size.bytes => Err(refused),
            Some(rest) if !missing.is_nothing() => self.have_room(rest),
            _ => Ok(()),
        }
    }

    pub(super) fn threads(&self) -> NonZeroUsize {
        let most = if self.checked.local {
            MAX_THREADS
        } else {
            REMOTE_THREADS
        };
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        self.threads.min(most)
    }

    /// Has place for a file's records among those of the store. Objects are there already, and stay
    /// whether or not there is.
    pub(super) fn have_room_for_records(&self, records: RecordUse) -> Result<(), IngestRefusal> {
        let limits = self.record_limits;
        if !records.is_within(limits) {
            let text = format!(
                "the records of the file take {} bytes, more than the {} of all records of the store (record_bytes)",
                records.bytes, limits.bytes
            );
            return Err(refusal(IngestReason::TOO_LARGE, text));
        }
        let used = self.target.store.record_use().map_err(|error| {
            let text = format!("the daemon cannot look at the store's records: {error}");
            refusal(IngestReason::UNAVAILABLE, text)
        })?;
        // What was read is published, and the store counts it: the rest is for the records. Of a
        // file that was read twice room was had for exactly what is missing, its records among
        // that.
        let left = self.checked.identity.size.saturating_add(RECORD_PAGES);
        let left = left.saturating_sub(self.monitor.bytes_read());
        let counted = self.pulse.passes() > 1 || records.bytes <= left;
        let beyond = if counted {
            None
        } else {
            (self.reserve)(Space {
                bytes: records.bytes,
                inodes: records.files,
            })
        };
        if used.plus(records).is_within(limits) && beyond.is_none() {
            return Ok(());
        }
        self.ask_room(beyond.unwrap_or_default(), records)
    }

    pub(super) fn have_room(&self, room: Space) -> Result<(), IngestRefusal> {
        self.ask_room(room, RecordUse::default())
    }

    fn ask_room(&self, room: Space, records: RecordUse) -> Result<(), IngestRefusal> {
        let usage = self.target.store.usage();
        let no_inode = usage.is_ok_and(|usage| usage.inodes > 0 && usage.inodes_free == 0);
        let need = RoomNeed {
            store: self.target.name.clone(),
            bytes: room.bytes,
            inodes: room.inodes.max(u64::from(no_inode)),
            records,
        };
        let (reply, answer) = channel();
        let granted = Arc::clone(&self.granted);
        (self.room)(
            need,
            Box::new(move |room: RoomResult| {
                if room.refused.is_none() {
                    granted();
                }
                let _gone = reply.send(room);
            }),
        );
        for _ in 0..ROOM_WAIT.as_secs() {
            match answer.recv_timeout(Duration::from_secs(1)) {
                Ok(room) => return judged(room),
                Err(RecvTimeoutError::Timeout) => {
                    self.pulse.beats.fetch_add(1, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(refusal(
            IngestReason::NO_ROOM,
            "the daemon is stopping, or too busy to make room",
        ))
    }
}

fn judged(room: RoomResult) -> Result<(), IngestRefusal> {
    let (reason, why) = match room.refused {
        None => return Ok(()),
        Some(RoomRefusal::TooLarge) => (
            IngestReason::NO_ROOM,
            "the store, or its limit of records, is smaller than that",
        ),
        Some(RoomRefusal::Limit) => (
            IngestReason::LIMIT,
            "the store is at its limit (limit_percent, limit_bytes or limit_inodes), and its remaining objects are mapped or declared warm",
        ),
        Some(RoomRefusal::InUse) => (IngestReason::NO_ROOM, "the remaining objects are mapped"),
        Some(RoomRefusal::Policy) => (
            IngestReason::POLICY,
            "the remaining objects are mapped, declared warm or guaranteed, and free room is kept for the guarantees of others",
        ),
        Some(RoomRefusal::Unavailable) => {
            (IngestReason::NO_ROOM, "the daemon cannot use the store now")
        }
    };
    let missing = room.missing_bytes;
    let text = format!("there is no room in the store, {missing} bytes are missing: {why}");
    Err(refusal(reason, text))
}

pub(super) fn refusal_of(error: &IngestError) -> IngestRefusal {
    let reason = match error {
        IngestError::Changed | IngestError::OtherBytes { .. } | IngestError::OtherDigest { .. } => {
            IngestReason::CHANGED
        }
        IngestError::TooLarge { .. } => IngestReason::TOO_LARGE,
        IngestError::Empty => IngestReason::EMPTY,
        IngestError::NoObjects { .. } => IngestReason::NO_OBJECT,
        IngestError::Claim(_)
        | IngestError::Load(LoadError::Header(_) | LoadError::Dtype { .. }) => {
            IngestReason::INVALID
        }
        IngestError::Publish(error) if error.is_full() => IngestReason::NO_ROOM,
        _ => IngestReason::UNAVAILABLE,
    };
    refusal(reason, error.to_string())
}
