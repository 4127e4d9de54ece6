//! Loading one file: recognize it and attach, or read, hash and publish it.

use std::path::Path;
use std::sync::Mutex;

use tetris_store_layout::{
    Access, IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, Store,
};

use crate::attach::{Found, Missing, attach, disown};
use crate::backing::{Backing, Backings};
use crate::compare;
use crate::daemon::{Answers, Patience};
use crate::error::{LoadError, NO_STORE};
use crate::hub;
use crate::model::{Entry, Part};
use crate::options::LoadOptions;
use crate::pipeline::{Pipeline, Run};
use crate::plan::{Plan, jobs_of_manifest};
use crate::read_private::read_private;
use crate::report::{LoadReport, Recognized};
use crate::sidecar;
use crate::source::{Failure, Source};
use crate::unknown::FileRead;
use crate::worth::NotWorthSharing;

/// How often a file that changes while it is read is tried.
const ATTEMPTS: u32 = 3;

/// Loads files with one set of options.
pub(crate) struct Loader<'a> {
    pub(crate) store: Option<&'a Store>,
    unavailable: Option<&'a str>,
    pub(crate) options: &'a LoadOptions,
    /// One thread makes room at a time; the others find that it was made.
    pub(crate) making_room: Mutex<()>,
    /// Whether the node's daemon is worth asking.
    pub(crate) patience: &'a Patience,
    /// Whether the daemon is worth passing files to.
    pub(crate) broker_patience: &'a Patience,
    /// What the daemon refused to this load.
    pub(crate) answers: Answers,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        store: Option<&'a Store>,
        unavailable: Option<&'a str>,
        options: &'a LoadOptions,
        patience: &'a Patience,
        broker_patience: &'a Patience,
    ) -> Self {
        Self {
            store,
            unavailable,
            options,
            making_room: Mutex::new(()),
            patience,
            broker_patience,
            answers: Answers::default(),
        }
    }

    /// Loads one file of a model.
    pub(crate) fn load(&self, path: &Path, kind: ManifestKind) -> Result<Part, LoadError> {
        self.load_source(Source::open(path)?, kind, || Source::open(path))
    }

    /// Loads a file that is open already; `again` opens it again when it changes meanwhile.
    pub(crate) fn load_source(
        &self,
        source: Source,
        kind: ManifestKind,
        again: impl Fn() -> Result<Source, LoadError>,
    ) -> Result<Part, LoadError> {
        let mut part = retry(source, again, |source| {
            let Some(store) = self.store else {
                let reason = self.unavailable.unwrap_or(NO_STORE).to_owned();
                return self.load_private(source, kind, Recognized::NotAtAll, reason);
            };
            match self.not_worth_sharing(source, kind) {
                Some(why) => self.load_private(source, kind, Recognized::Unshared, why.to_string()),
                None => self.load_shared(source, kind, store),
            }
        })?;
        part.account();
        if self.options.prefault {
            part.backings.prefault();
        }
        Ok(part)
    }

    /// What one file consists of; its content is not published. With `remember` the answer is kept in
    /// the store, so that the file is not read for it again.
    pub(crate) fn manifest(
        &self,
        path: &Path,
        kind: ManifestKind,
        remember: bool,
    ) -> Result<Manifest, LoadError> {
        let again = || Source::open(path);
        retry(again()?, again, |source| {
            if let Some(store) = self.store.filter(|_| !self.options.ignore_identity) {
                for (recognized, id) in Self::bound(source, kind, store) {
                    if let Ok(Some(manifest)) = store.manifest(id)
                        && Self::is_of(&manifest, source, store, recognized)?
                    {
                        return Ok(manifest);
                    }
                }
            }
            let read = FileRead::new(source, kind, self.options.thread_count())?;
            let run = self.pipeline(source, &read.plan, None).run()?;
            let bindable = source.require_unchanged()?;
            let manifest = read.into_manifest(&run).0;
            if let Some(store) = self.store.filter(|store| store.is_writable())
                && remember
                && bindable
                && !manifest.objects.is_empty()
                && let Some(key) = source.stat_key(kind)
            {
                let bound = store
                    .publish_manifest(&manifest)
                    .and_then(|id| store.bind(&key, id));
                if let Err(error) = bound {
                    tracing::debug!(%error, "the file will be hashed again");
                }
            }
            Ok(manifest)
        })
    }

    /// Whether a manifest is the file's, as far as its objects are in the store: what is compared is as of a load (INV-11).
    fn is_of(
        manifest: &Manifest,
        source: &Source,
        store: &Store,
        recognized: Recognized,
    ) -> Result<bool, Failure> {
        if !recognized.is_compared() {
            return Ok(true);
        }
        let object = |index: u32| {
            let entry = manifest.objects.get(index as usize)?;
            let mapped = store.map(&entry.object, Access::ReadOnly);
            mapped.ok().flatten()
        };
        let agrees = compare::agrees(source, manifest, object)?;
        if !agrees {
            disown(store, source, manifest.kind, recognized);
        }
        Ok(agrees)
    }

    fn load_shared(
        &self,
        source: &Source,
        kind: ManifestKind,
        store: &Store,
    ) -> Result<Part, Failure> {
        if self.options.ignore_identity {
            return self.load_unknown(source, kind, store);
        }
        if self.asks_broker(store) {
            if let Some(part) = self.load_known(source, kind, store, Missing::Leave)? {
                return Ok(part);
            }
            if let Some(part) = self.load_brokered(source, kind, store)? {
                return Ok(part);
            }
        }
        if let Some(part) = self.load_known(source, kind, store, Missing::Read)? {
            return Ok(part);
        }
        // Others that load this file wait until it is known; the lock dies with its holder.
        // What no identity can tell stays unknown, and nobody waits for it.
        let mut lock = None;
        let own = source.stat_key(kind);
        if let Some(own) = own.or_else(|| blob_key(source, kind)) {
            let known = || matches!(store.look_up(&own), Ok(Some(_)));
            lock = store.creation_lock(&own.id().0, self.options.wait, known);
            if (lock.is_some() || known())
                && let Some(part) = self.load_known(source, kind, store, Missing::Read)?
            {
                return Ok(part);
            }
        }
        let part = self.load_unknown(source, kind, store);
        drop(lock);
        part
    }

    /// Attaches a file by the first identity that leads to a manifest that holds.
    fn load_known(
        &self,
        source: &Source,
        kind: ManifestKind,
        store: &Store,
        missing: Missing,
    ) -> Result<Option<Part>, Failure> {
        for (recognized, id) in Self::bound(source, kind, store) {
            match store.manifest(id) {
                Ok(Some(manifest)) => {
                    let found = Found {
                        id,
                        manifest,
                        recognized,
                    };
                    if let Some(part) = attach(self, source, store, found, missing)? {
                        store.touch_manifest(id);
                        return Ok(Some(part));
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "manifest ignored; the file is hashed again"),
            }
        }
        if kind == ManifestKind::Safetensors
            && let Some(manifest) = sidecar::of(source)?
        {
            let found = Found {
                id: manifest.id(),
                manifest,
                recognized: Recognized::BySidecar,
            };
            return attach(self, source, store, found, missing);
        }
        Ok(None)
    }

    /// The manifests that the file's identities are bound to, the surest first; the next identity is
    /// looked at only when it is asked for.
    fn bound<'s>(
        source: &'s Source,
        kind: ManifestKind,
        store: &'s Store,
    ) -> impl Iterator<Item = (Recognized, ManifestId)> + 's {
        [Recognized::ByStat, Recognized::ByBlobName]
            .into_iter()
            .filter_map(move |recognized| {
                let key = match recognized {
                    Recognized::ByStat => source.stat_key(kind),
                    _ => blob_key(source, kind),
                };
                match store.look_up(&key?) {
                    Ok(found) => Some((recognized, found?)),
                    Err(error) => {
                        tracing::warn!(%error, "identity ignored; the file is hashed again");
                        None
                    }
                }
            })
    }

    /// Why a file is not to be shared; `None` when it is. A file is kept whole only for callers that want it in the store.
    fn not_worth_sharing(&self, source: &Source, kind: ManifestKind) -> Option<NotWorthSharing> {
        match kind {
            ManifestKind::File => None,
            ManifestKind::Safetensors => NotWorthSharing::of(source, self.options),
        }
    }

    fn load_private(
        &self,
        source: &Source,
        kind: ManifestKind,
        recognized: Recognized,
        reason: String,
    ) -> Result<Part, Failure> {
        let mut report = LoadReport {
            recognized: vec![recognized],
            private_reason: Some(reason),
            ..LoadReport::default()
        };
        let mut part = Part {
            path: source.path().to_owned(),
            size: source.identity().size,
            manifest: None,
            metadata: Vec::new(),
            entries: Vec::new(),
            backings: Backings::default(),
            report: LoadReport::default(),
        };
        if kind == ManifestKind::Safetensors {
            let (header, _) = source.header()?;
            let plan = Plan::one_per_tensor(&header, source)?;
            let (places, buffer) =
                read_private(source, &plan.jobs, self.options.thread_count(), &mut report)?;
            part.backings = Backings::new(places, Some(buffer));
            let planned = header.tensors.into_iter().zip(plan.tensors);
            part.entries = planned
                .map(|(info, planned)| Entry {
                    len: info.byte_len(),
                    dtype: planned.dtype,
                    name: info.name,
                    shape: info.shape,
                    id: None,
                    place: planned.place,
                })
                .collect();
            part.metadata = header.metadata.into_iter().collect();
        }
        source.require_unchanged()?;
        part.report = report;
        Ok(part)
    }

    /// Turns the results of a run, one per object of the manifest, into backings; what the store did
    /// not take is read into private memory.
    pub(crate) fn complete(
        &self,
        source: &Source,
        manifest: &Manifest,
        run: Run,
        report: &mut LoadReport,
    ) -> Result<Backings, Failure> {
        let missing = run
            .objects
            .iter()
            .filter(|hashed| hashed.mapping.is_none())
            .count();
        if missing > 0 {
            let reason =
                "the tensor store is read-only for this process and has not got all objects";
            let reason = run.refused.unwrap_or(reason.to_owned());
            report.private_reason = Some(self.with_refusal(reason));
            // A whole file is not copied: programs go on with the original.
            if manifest.kind == ManifestKind::File {
                return Ok(Backings::default());
            }
        }
        let (private, buffer) = if missing == 0 {
            (Vec::new(), None)
        } else {
            let threads = if run.at_map_limit {
                1
            } else {
                self.options.thread_count()
            };
            let jobs: Vec<_> = jobs_of_manifest(manifest)
                .into_iter()
                .zip(&run.objects)
                .filter_map(|(job, hashed)| hashed.mapping.is_none().then_some(job))
                .collect();
            let (places, buffer) = read_private(source, &jobs, threads, report)?;
            (places, Some(buffer))
        };
        let mut private = private.into_iter();
        let backings = run.objects.into_iter().map(|hashed| match hashed.mapping {
            Some((mapping, outcome)) => Some(Backing::Store {
                object: hashed.object,
                mapping,
                outcome,
            }),
            None => private.next(),
        });
        // One missing would shift the others under the wrong tensors.
        let backings = backings.collect::<Option<_>>().ok_or_else(|| {
            let error = std::io::Error::other("an object was not read (this is a bug)");
            LoadError::io("read", source.path(), error)
        })?;
        Ok(Backings::new(backings, buffer))
    }

    pub(crate) fn pipeline<'p>(
        &'p self,
        source: &'p Source,
        plan: &'p Plan,
        store: Option<&'p Store>,
    ) -> PipelineOf<'p> {
        PipelineOf {
            loader: self,
            source,
            jobs: &plan.jobs,
            store,
            known_missing: false,
        }
    }
}

/// The identity that the name of a Hugging Face blob claims.
fn blob_key(source: &Source, kind: ManifestKind) -> Option<IdentityKey> {
    let digest = hub::blob_claim(source.path())?;
    let size = source.identity().size;
    let by = IdentityBy::Sha256 { digest, size };
    Some(IdentityKey { kind, by })
}

/// A pipeline of a loader, ready to run.
pub(crate) struct PipelineOf<'p> {
    pub(crate) loader: &'p Loader<'p>,
    pub(crate) source: &'p Source,
    pub(crate) jobs: &'p [crate::plan::Job],
    pub(crate) store: Option<&'p Store>,
    pub(crate) known_missing: bool,
}

impl PipelineOf<'_> {
    pub(crate) fn run(&self) -> Result<Run, Failure> {
        Pipeline {
            source: self.source,
            jobs: self.jobs,
            store: self.store,
            known_missing: self.known_missing,
            access: self.loader.options.access,
            threads: self.loader.options.thread_count(),
            progress: self.loader.options.progress.as_ref(),
            make_room: &|bytes| self.loader.make_room(bytes),
        }
        .run()
    }
}

/// Tries `load` with `source`, and with another that `again` opens if the file changes meanwhile.
fn retry<T>(
    mut source: Source,
    again: impl Fn() -> Result<Source, LoadError>,
    mut load: impl FnMut(&Source) -> Result<T, Failure>,
) -> Result<T, LoadError> {
    for attempt in 1..=ATTEMPTS {
        match load(&source) {
            Ok(loaded) => return Ok(loaded),
            Err(Failure::Changed) if attempt < ATTEMPTS => source = again()?,
            Err(Failure::Changed) => {}
            Err(Failure::Load(error)) => return Err(error),
        }
    }
    Err(LoadError::Changed {
        path: source.path().to_owned(),
        attempts: ATTEMPTS,
    })
}
