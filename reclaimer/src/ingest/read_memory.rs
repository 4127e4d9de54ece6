//! The thread of a job of memory, of a manifest or of a derived tensor.

use std::fs::File;
use std::sync::Arc;

use tetris_loader::ingest::{AssemblyIngest, MemoryIngest};
use tetris_reclaimer_core::Space;
use tetris_store_layout::{Access, DerivedRecord, ObjectRef, RecordUse};
use tetris_wire::daemon::{IngestReason, IngestRefusal};

use super::AssemblyRequest;
use super::finished::Finished;
use super::read::{FirstRefusal, Work};
use super::refusal;

impl Work {
    /// Records a derived tensor, by the word of its domain. Its object must be in the store.
    pub(super) fn run_derived(&self, record: &DerivedRecord) -> Result<Finished, IngestRefusal> {
        let store = &self.target.store;
        let unavailable = |error: String| refusal(IngestReason::UNAVAILABLE, error);
        let object = store.map(&record.object, Access::ReadOnly);
        let object = object.map_err(|error| unavailable(error.to_string()))?;
        let Some(object) = object else {
            let text = "the object of the derived tensor is not in the store; publish it first";
            return Err(refusal(IngestReason::NO_OBJECT, text));
        };
        let records = RecordUse::of_derived();
        let room = Space {
            bytes: records.bytes,
            inodes: records.files,
        };
        if let Some(whole) = (self.reserve)(room) {
            self.have_room(whole)?;
        }
        self.have_room_for_records(records)?;
        let recorded = store.record_derived(&record.key, record.object);
        recorded.map_err(|error| {
            if error.is_full() {
                refusal(IngestReason::NO_ROOM, error.to_string())
            } else {
                unavailable(error.to_string())
            }
        })?;
        Ok(Finished::recorded(object))
    }

    /// Proves and publishes the manifest of a file whose objects are in the store.
    pub(super) fn run_assembly(
        &self,
        request: AssemblyRequest,
        file: &File,
    ) -> Result<Finished, IngestRefusal> {
        let refused = FirstRefusal::default();
        let make_room = |bytes| refused.note(self.have_room(Space::of_bytes(bytes)));
        let admit_records = |records| refused.note(self.have_room_for_records(records));
        let admit_header = |len| self.admit_header(len);
        let ingest = AssemblyIngest {
            store: &self.target.store,
            len: self.checked.identity.size,
            manifest_len: request.manifest_len,
            sha256: request.sha256,
            threads: self.threads(),
            max_tensors: self.max_tensors,
            monitor: Arc::clone(&self.monitor),
            make_room: &make_room,
            admit_records: &admit_records,
            admit_header: &admit_header,
        };
        let result = ingest.run(file);
        Ok(refused.or(result)?.into())
    }

    /// Publishes memory, or finds its bytes in the store.
    pub(super) fn run_memory(
        &self,
        object: ObjectRef,
        file: &File,
    ) -> Result<Finished, IngestRefusal> {
        let refused = FirstRefusal::default();
        let make_room = |bytes| refused.note(self.have_room(Space::of_bytes(bytes)));
        let ingest = MemoryIngest {
            store: &self.target.store,
            object,
            threads: self.threads(),
            monitor: Arc::clone(&self.monitor),
            make_room: &make_room,
        };
        // An object that cannot be mapped now is published anew, or the store gives the reason.
        if let Ok(Some(known)) = ingest.known() {
            return Ok(known.into());
        }
        let room = Space {
            bytes: ingest.needed(),
            inodes: 1,
        };
        if let Some(whole) = (self.reserve)(room) {
            self.have_room(whole)?;
        }
        let result = ingest.run(file);
        Ok(refused.or(result)?.into())
    }
}
