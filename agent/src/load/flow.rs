//! The order of the steps of a load, the decisions between them, and loads without the store.

use std::path::Path;

use tetris_loader::{
    HashedObject, LoadError, LoadFailure, Plan, PrivateCause, Recognized, Source, disown,
};
use tetris_store_layout::{LastPath, ManifestKind, PublishOutcome, Store};
use tracing::field::Empty;

use super::read::{HashedFile, ReadObjects, read_private};
use super::recognize::{self, KnownFile, Mapped};
use super::{LoadContext, SharedLoad, broker};
use crate::backing::Backings;
use crate::loaded_file::{LoadedFile, TensorEntry};
use crate::private_reason::{PrivateReason, store_dir};
use crate::report::LoadReport;
use crate::worth::NotWorthSharing;

/// Handling of the objects of a known file that are not in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// They are read from the file, and published where that is possible.
    Read,
    /// The file is not attached: the broker can publish them.
    Leave,
}

impl LoadContext<'_> {
    /// Loads one file of a model.
    pub(crate) fn load(&self, path: &Path, kind: ManifestKind) -> Result<LoadedFile, LoadError> {
        self.load_source(Source::open(path)?, kind, || Source::open(path))
    }

    /// Loads a file that is open already; `again` opens it again when it changes meanwhile.
    pub(crate) fn load_source(
        &self,
        source: Source,
        kind: ManifestKind,
        again: impl Fn() -> Result<Source, LoadError>,
    ) -> Result<LoadedFile, LoadError> {
        // Python has the log from level `debug` on, and would be asked about it for each load.
        let span = tracing::trace_span!(
            "load",
            bytes_shared = Empty,
            bytes_new = Empty,
            bytes_private = Empty
        );
        let _entered = span.enter();
        let mut file = retry(source, again, |source| {
            let Some(store) = self.store else {
                let reason = PrivateReason::without_store(self.unavailable);
                return self.load_private(source, kind, Recognized::NotAtAll, reason);
            };
            match self.not_worth_sharing(source, kind) {
                Some(why) => self.load_private(source, kind, Recognized::Unshared, why.reason()),
                None => self
                    .load_shared(source, kind, store)
                    .map(|file| LoadedFile {
                        has_identity: source.stat_key(kind).is_some(),
                        ..file
                    }),
            }
        })?;
        file.account();
        span.record("bytes_shared", file.report.bytes_shared);
        span.record("bytes_new", file.report.bytes_new);
        span.record("bytes_private", file.report.bytes_private);
        self.note_path(&file);
        file.report.store = store_dir(self.store, self.unavailable).map(Path::to_owned);
        if self.options.prefault {
            file.backings.prefault();
        }
        Ok(file)
    }

    /// Notes the file's path, for people, where this process may.
    fn note_path(&self, file: &LoadedFile) {
        if let (Some(store), Some(id)) = (self.store, file.manifest) {
            store.note_last_path(id, || LastPath::of_path(&file.path));
        }
    }

    /// The reason not to share a file, if there is one. A file is kept whole only for callers that want
    /// it in the store.
    pub(super) fn not_worth_sharing(
        &self,
        source: &Source,
        kind: ManifestKind,
    ) -> Option<NotWorthSharing> {
        match kind {
            ManifestKind::File => None,
            ManifestKind::Safetensors => NotWorthSharing::of(source, self.options),
        }
    }

    /// Loads a file through the store: recognizes it, has the broker publish it, or reads it.
    fn load_shared(
        &self,
        source: &Source,
        kind: ManifestKind,
        store: &Store,
    ) -> Result<LoadedFile, LoadFailure> {
        let load = SharedLoad {
            source,
            kind,
            store,
        };
        if self.options.ignore_identity {
            return self.load_cold(load);
        }
        if self.asks_broker(store) {
            if let Some(file) = self.load_known(load, Missing::Leave)? {
                return Ok(file);
            }
            if let Some(file) = self.load_brokered(load)? {
                return Ok(file);
            }
        }
        if let Some(file) = self.load_known(load, Missing::Read)? {
            return Ok(file);
        }
        // Others that load this file wait until it is known; the lock dies with its holder. A file
        // without an identity stays unknown, and no other process waits for it.
        let mut lock = None;
        let stat_key = source.stat_key(kind);
        if let Some(key) = stat_key.or_else(|| recognize::blob_key(source, kind)) {
            let known = || matches!(store.look_up(&key), Ok(Some(_)));
            lock = store.creation_lock(&key.id().0, self.options.wait, known);
            if (lock.is_some() || known())
                && let Some(file) = self.load_known(load, Missing::Read)?
            {
                return Ok(file);
            }
        }
        let file = self.load_cold(load);
        drop(lock);
        file
    }

    /// Loads a file by the first identity that leads to its manifest.
    fn load_known(
        &self,
        load: SharedLoad<'_>,
        if_missing: Missing,
    ) -> Result<Option<LoadedFile>, LoadFailure> {
        for known in recognize::by_identity(load) {
            let id = known.id;
            if let Some(file) = self.load_as(load, known, if_missing)? {
                load.store.touch_manifest(id);
                return Ok(Some(file));
            }
        }
        match recognize::by_sidecar(load)? {
            Some(known) => self.load_as(load, known, if_missing),
            None => Ok(None),
        }
    }

    /// Has the broker publish a file, and attaches it; `None` when it does not, for a noted reason.
    fn load_brokered(&self, load: SharedLoad<'_>) -> Result<Option<LoadedFile>, LoadFailure> {
        for _ in 0..broker::ATTEMPTS {
            let Some(ingested) = self.ingested(load) else {
                return Ok(None);
            };
            load.source.require_unchanged()?;
            if let Some(known) = broker::known(load.store, &ingested)
                && let Some(file) = self.load_as(load, known, Missing::Leave)?
            {
                ingested.done();
                return Ok(Some(file));
            }
        }
        let why = "its objects were reclaimed before they could be attached";
        self.answers
            .not_ingested(PrivateCause::Full { needed: 0 }, why);
        Ok(None)
    }

    /// Loads a file by a manifest. `None` when the manifest proves not to be the file's, or when
    /// objects are missing that `if_missing` leaves to the broker.
    fn load_as(
        &self,
        load: SharedLoad<'_>,
        known: KnownFile,
        if_missing: Missing,
    ) -> Result<Option<LoadedFile>, LoadFailure> {
        let Some(mapped) = self.attach(load, known)? else {
            return Ok(None);
        };
        let missing = mapped.missing();
        let mut report = LoadReport {
            recognized: vec![mapped.known.recognized],
            ..LoadReport::default()
        };
        let limit = |text| PrivateReason::new(PrivateCause::MappingLimit, text);
        let mut read = ReadObjects {
            refused: mapped.limit.reason().map(limit),
            ..ReadObjects::default()
        };
        if !missing.is_empty() {
            if if_missing == Missing::Leave {
                return Ok(None);
            }
            let Some(objects) = self.publish_missing(load, &mapped.known, &missing)? else {
                let (kind, recognized) = (mapped.known.manifest.kind, mapped.known.recognized);
                disown(load.store, load.source, kind, recognized);
                return Ok(None);
            };
            report.bytes_read += objects.bytes_read;
            read = objects;
        }
        self.finish(load, mapped, read, report).map(Some)
    }

    /// The file of mapped objects and of those that were `read` in place of the missing ones.
    fn finish(
        &self,
        load: SharedLoad<'_>,
        mapped: Mapped,
        read: ReadObjects,
        mut report: LoadReport,
    ) -> Result<LoadedFile, LoadFailure> {
        let KnownFile {
            id,
            manifest,
            recognized,
        } = mapped.known;
        let mut objects_read = read.objects.into_iter();
        let objects = manifest.objects.iter().zip(mapped.present);
        let objects = objects.map(|(entry, mapping)| HashedObject {
            object: entry.object,
            mapping: match mapping {
                Some(mapping) => Some((mapping, PublishOutcome::Existing)),
                None => objects_read.next().and_then(|hashed| hashed.mapping),
            },
        });
        let file = HashedFile {
            objects: objects.collect(),
            refused: read.refused,
            at_map_limit: mapped.limit.is_met(),
            private: read.private,
        };
        let backings = self.complete(load.source, &manifest, file, &mut report)?;
        if report.bytes_read > 0 {
            load.source.require_unchanged()?;
        }
        if recognized == Recognized::BySidecar && load.store.is_writable() {
            // For `ls` and `gc`; the file's identity is not bound to it (INV-10).
            if let Err(error) = load.store.publish_manifest(&manifest) {
                tracing::debug!(%error, "manifest of a sidecar not published");
            }
        }
        let path = load.source.path();
        Ok(LoadedFile::new(path, id, manifest, backings, report))
    }
}

/// Most attempts to load a file that changes while it is read.
const ATTEMPTS: u32 = 3;

/// Tries `load` with `source`, and with another that `again` opens if the file changes meanwhile.
pub(super) fn retry<T>(
    mut source: Source,
    again: impl Fn() -> Result<Source, LoadError>,
    mut load: impl FnMut(&Source) -> Result<T, LoadFailure>,
) -> Result<T, LoadError> {
    for attempt in 1..=ATTEMPTS {
        match load(&source) {
            Ok(loaded) => return Ok(loaded),
            Err(LoadFailure::Changed) if attempt < ATTEMPTS => source = again()?,
            Err(LoadFailure::Changed) => {}
            Err(LoadFailure::Load(error)) => return Err(error),
        }
    }
    Err(LoadError::Changed {
        path: source.path().to_owned(),
        attempts: ATTEMPTS,
    })
}

impl LoadContext<'_> {
    /// Reads a file into private memory, for the given reason. A file that would be kept whole is not
    /// copied.
    pub(super) fn load_private(
        &self,
        source: &Source,
        kind: ManifestKind,
        recognized: Recognized,
        reason: PrivateReason,
    ) -> Result<LoadedFile, LoadFailure> {
        let mut report = LoadReport {
            recognized: vec![recognized],
            ..LoadReport::default()
        };
        report.set_private(reason);
        let mut file = LoadedFile {
            path: source.path().to_owned(),
            size: source.identity().size,
            manifest: None,
            metadata: Vec::new(),
            entries: Vec::new(),
            backings: Backings::default(),
            report: LoadReport::default(),
            has_identity: false,
        };
        if kind == ManifestKind::Safetensors {
            let (header, _) = source.header()?;
            let plan = Plan::one_per_tensor(&header, source)?;
            let threads = self.options.thread_count();
            let (places, buffer) = read_private(source, &plan.jobs, threads, &mut report)?;
            file.backings = Backings::new(places, vec![buffer]);
            let planned = header.tensors.into_iter().zip(plan.tensors);
            file.entries = planned
                .map(|(info, planned)| TensorEntry {
                    len: info.byte_len(),
                    dtype: planned.dtype,
                    name: info.name,
                    shape: info.shape,
                    id: None,
                    place: planned.place,
                })
                .collect();
            file.metadata = header.metadata.into_iter().collect();
        }
        source.require_unchanged()?;
        file.report = report;
        Ok(file)
    }
}
