//! A pulled file in the store: its promise is proved, and its identities are bound to it.

use std::convert::Infallible;
use std::path::Path;
use std::time::UNIX_EPOCH;

use tetris_folder::TableFile;
use tetris_loader::header::Header;
use tetris_loader::{PlannedFile, StoredFile};
use tetris_store_layout::{
    CreationLock, Digest, Manifest, ManifestId, Mapping, ObjectId, ObjectRef, PublishOutcome,
    Published, Store,
};

use crate::destination::{Destination, brokered};
use crate::error::PullError;
use crate::journal::Journal;
use crate::listing::RemoteFile;
use crate::report::{FileReport, KnownBy};

/// A file whose objects are in the store and mapped.
pub(crate) struct PulledFile {
    pub(crate) report: FileReport,
    pub(crate) objects: Vec<Mapping>,
    /// First bytes of a safetensors file, up to its tensors; empty for other files.
    pub(crate) header: Vec<u8>,
    /// Work left before the file counts as known.
    pub(crate) unbound: Option<Unbound>,
    /// Others that pull this file wait until it is bound.
    pub(crate) lock: Option<CreationLock>,
}

/// Content to be proved, and then bound to the file's identities.
pub(crate) struct Unbound {
    pub(crate) manifest: Manifest,
    pub(crate) new: Vec<ObjectRef>,
    /// Offsets and lengths of the ranges that the journal has notes about.
    pub(crate) noted: Vec<(u64, u64)>,
}

impl PulledFile {
    /// A file without bytes.
    pub(crate) fn empty(file: &RemoteFile) -> Self {
        pulled(file, KnownBy::Reading, None, 0)
    }

    /// A file whose planned objects were made by reading it.
    pub(crate) fn read(file: &RemoteFile, planned: PlannedFile, objects: Vec<Published>) -> Self {
        let refs: Vec<ObjectRef> = objects.iter().map(|object| object.object).collect();
        let new = objects
            .iter()
            .filter(|object| object.outcome == PublishOutcome::New);
        let new: Vec<ObjectRef> = new.map(|object| object.object).collect();
        let (manifest, header) = planned.into_manifest(&refs);
        let mut read = pulled(file, KnownBy::Reading, Some(manifest.id()), file.size);
        read.report.objects = refs.len();
        read.report.new_objects = new.len();
        read.objects = objects.into_iter().map(|object| object.mapping).collect();
        read.header = header;
        read.unbound = Some(Unbound {
            manifest,
            new,
            noted: Vec::new(),
        });
        read
    }

    /// A file with a known manifest, all of whose objects are mapped.
    pub(crate) fn known(
        file: &RemoteFile,
        manifest: Option<ManifestId>,
        header: Vec<u8>,
        objects: Vec<Mapping>,
    ) -> Self {
        let mut known = pulled(file, KnownBy::Version, manifest, 0);
        known.report.objects = objects.len();
        known.header = header;
        known.objects = objects;
        known
    }

    /// Returns true if the manifest is the one that the header and the objects make: the digest of a file does not cover
    /// the names that a manifest gives its tensors.
    pub(crate) fn is_planned(&self, threads: usize) -> bool {
        let Some(Unbound { manifest, .. }) = &self.unbound else {
            return false;
        };
        let stored = stored(&self.report.file, &self.header, manifest, &self.objects);
        let size = manifest.source_size;
        let Ok(header) = Header::parse(&self.header, size) else {
            return false;
        };
        let raw = self.header.clone();
        let Ok(planned) = PlannedFile::of_header(header, raw, size, &stored, threads) else {
            return false;
        };
        let refs: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
        planned.into_manifest(&refs).0.id() == manifest.id()
    }

    /// Removes the objects that were new.
    pub(crate) fn discard(mut self, store: &Store) {
        self.objects.clear();
        for object in self.unbound.iter().flat_map(|unbound| &unbound.new) {
            // What others map stays, and goes as any object that no one needs.
            let _may_stay = store.reclaim(object);
        }
    }

    /// The file in the list of a folder.
    pub(crate) fn entry(&self) -> TableFile {
        let file = &self.report.file;
        let modified = file
            .modified
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        TableFile {
            path: file.path.clone(),
            size: file.size,
            modified: modified.map_or(0, |since| since.as_secs()),
            manifest: self.report.manifest,
            version: file.source_digest().map(Digest),
            header: (!self.header.is_empty()).then(|| ObjectId::of(&self.header)),
        }
    }

    /// Proves that the content has the digest that the source promises, and binds the file's identities
    /// to it. Of a file with another digest nothing is left.
    pub(crate) fn bind(mut self, destination: Destination<'_>) -> Result<Self, PullError> {
        let Some(unbound) = self.unbound.take() else {
            return Ok(self);
        };
        let (file, store) = (self.report.file.clone(), destination.store);
        let forget = || {
            let journal = Journal::of(&file, destination);
            for &(at, len) in &unbound.noted {
                journal.remove(at, len);
            }
        };
        // A daemon proves the digest itself.
        let is_proved = self.report.known_by != KnownBy::Reading
            || (destination.publisher.is_some() && file.sha256.is_some());
        let stored = stored(&file, &self.header, &unbound.manifest, &self.objects);
        if let Some(error) = (!is_proved)
            .then(|| broken_promise(&file, &stored))
            .flatten()
        {
            forget();
            self.unbound = Some(unbound);
            self.discard(store);
            return Err(error);
        }
        if let Some(publisher) = destination.publisher {
            if unbound.manifest.objects.is_empty() {
                self.report.manifest = None;
                return Ok(self);
            }
            let assembled = publisher.assemble(&unbound.manifest, &self.header, file.sha256);
            assembled.map_err(|source| brokered(&file.address, source))?;
            self.lock = None;
            return Ok(self);
        }
        if unbound.manifest.objects.is_empty() {
            self.report.manifest = None;
            return Ok(self);
        }
        let id = store.publish_manifest(&unbound.manifest)?;
        for key in file.keys() {
            store.bind(&key, id)?;
        }
        // The manifest names the objects from now on.
        forget();
        self.lock = None;
        Ok(self)
    }
}

pub(crate) fn stored<'a>(
    file: &'a RemoteFile,
    header: &'a [u8],
    manifest: &'a Manifest,
    objects: &'a [Mapping],
) -> StoredFile<'a> {
    StoredFile {
        path: Path::new(&file.address),
        header,
        manifest,
        objects,
    }
}

/// The error of stored bytes other than the source promises, by its digest or else its checksum.
pub(crate) fn broken_promise(file: &RemoteFile, stored: &StoredFile<'_>) -> Option<PullError> {
    let (expected, computed) = if let Some(expected) = file.sha256 {
        let Ok(computed) = stored.sha256(|_| Ok::<_, Infallible>(()));
        let shown = |digest| format!("SHA-256 {}", Digest(digest));
        (shown(expected), shown(computed))
    } else {
        let expected = file.checksum?;
        (expected.to_string(), expected.over(stored).to_string())
    };
    (computed != expected).then(|| PullError::Digest {
        address: file.address.clone(),
        expected,
        found: computed,
    })
}

fn pulled(
    file: &RemoteFile,
    known_by: KnownBy,
    manifest: Option<ManifestId>,
    fetched: u64,
) -> PulledFile {
    PulledFile {
        report: FileReport {
            file: file.clone(),
            known_by,
            manifest,
            fetched,
            objects: 0,
            new_objects: 0,
        },
        objects: Vec::new(),
        header: Vec::new(),
        unbound: None,
        lock: None,
    }
}
