//! The pull of one file: recognized, completed, or read.

use std::ops::Range;
use std::time::Duration;

use tetris_folder::{FolderTable, find_header};
use tetris_loader::header::{Header, HeaderError, LENGTH_FIELD_LEN, MAX_HEADER_LEN};
use tetris_loader::sidecar::Sidecar;
use tetris_loader::{Job, MapLimit, ModelBytes, PlannedFile, jobs_of_manifest, map_objects};
use tetris_store_layout::{
    Access, Digest, IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, Mapping, ObjectId,
    ObjectRef, Published, Store,
};
use tokio::runtime::Handle;

use crate::checksum::Promise;
use crate::destination::Destination;
use crate::error::PullError;
use crate::fetch::Fetcher;
use crate::journal::Journal;
use crate::listing::RemoteFile;
use crate::memory::FetchedParts;
use crate::objects::{ObjectFetch, ObjectsError, WantedObject, changed};
use crate::options::PullOptions;
use crate::peers::Peers;
use crate::pulled_file::{PulledFile, Unbound, broken_promise, stored};
use crate::report::KnownBy;

/// Part of a file fetched for its header, which has some 120 bytes for each tensor. Longer ones take a second request.
const FRONT: u64 = 64 << 10;
/// Longest sidecar taken: that of a model with 400,000 tensors.
pub(crate) const MAX_SIDECAR: u64 = 64 << 20;
/// Longest object made in memory by another's manifest: packs of a file with 100 GB in tensors of 1 MB have this much.
const MAX_PACK: u64 = 256 << 20;
/// Longest wait for another process that pulls the same file.
const WAIT: Duration = Duration::from_hours(1);

/// The parts that pulling a file needs.
pub(crate) struct FilePull<'a> {
    pub(crate) fetcher: &'a Fetcher<'a>,
    pub(crate) destination: Destination<'a>,
    /// Files of an earlier pull of the source, if it is listed.
    pub(crate) earlier: Option<&'a FolderTable>,
    pub(crate) runtime: &'a Handle,
    /// Nodes that may know a file's manifest.
    pub(crate) peers: Option<&'a Peers>,
    pub(crate) options: &'a PullOptions,
}

/// The objects of a manifest, which are all there.
struct Completed {
    /// In the order of the manifest.
    objects: Vec<Mapping>,
    new: usize,
}

impl FilePull<'_> {
    fn store(&self) -> &Store {
        self.destination.store
    }

    /// Brings all objects of a file into the store; `sidecar` is the one beside it, if there is one.
    pub(crate) fn pull(
        &self,
        file: &RemoteFile,
        sidecar: Option<&RemoteFile>,
    ) -> Result<PulledFile, PullError> {
        let span = tracing::debug_span!("pull", path = file.path, bytes = file.size);
        let _entered = span.enter();
        if file.size == 0 {
            return Ok(PulledFile::empty(file));
        }
        // A known file is not waited for: two pulls that complete it at once fetch the same objects.
        let lock = file.keys().next().and_then(|key| {
            let is_known = || matches!(self.store().look_up(&key), Ok(Some(_)));
            self.store().creation_lock(&key.id().0, WAIT, is_known)
        });
        if let Some(known) = self.known(file)? {
            return Ok(known);
        }
        let promised = self.promised(file)?;
        if promised.sha256 != file.sha256
            && let Some(known) = self.known(&promised)?
        {
            return Ok(known);
        }
        let file = &promised;
        let by_sidecar = sidecar.map(|sidecar| self.by_sidecar(file, sidecar));
        let unknown = match by_sidecar.transpose()?.flatten() {
            Some(file) => file,
            None => match self.by_peer(file)? {
                Some(file) => file,
                None => self.read(file)?,
            },
        };
        Ok(PulledFile { lock, ..unknown })
    }

    /// The file by an identity that the store has, completed from the source.
    fn known(&self, file: &RemoteFile) -> Result<Option<PulledFile>, PullError> {
        let before = self.fetcher.fetched();
        let by_key = file.keys().map(|key| {
            let known_by = match key.by {
                IdentityBy::Sha256 { .. } => KnownBy::Sha256,
                _ => KnownBy::Version,
            };
            (known_by, Some(key))
        });
        // A process that can only read the store binds no version to a file, but lists it.
        for (known_by, key) in by_key.chain([(KnownBy::Version, None)]) {
            let Some((id, manifest)) = self.manifest_of(file, key.as_ref()) else {
                continue;
            };
            let header = self.header(file, &manifest)?;
            let completed = match header {
                Some(_) => self.complete(file, &manifest)?,
                None => None,
            };
            let (Some(header), Some(completed)) = (header, completed) else {
                tracing::warn!(
                    address = file.address,
                    "the file is not what the store knows by that name; it is read again"
                );
                // A digest was proved before: then the source does not keep its promise, and others do.
                if let (KnownBy::Version, Some(key), None) =
                    (known_by, key, self.destination.publisher)
                {
                    self.store().unbind(&key)?;
                }
                continue;
            };
            self.store().touch_manifest(id);
            let mut known = PulledFile::known(file, Some(id), header, completed.objects);
            known.report.known_by = known_by;
            known.report.fetched = self.fetcher.fetched() - before;
            known.report.new_objects = completed.new;
            return Ok(Some(known));
        }
        Ok(None)
    }

    /// The file with the digest or checksum that its source has of it.
    fn promised(&self, file: &RemoteFile) -> Result<RemoteFile, PullError> {
        let promise = match file.sha256 {
            Some(_) => Promise::default(),
            None => self.runtime.block_on(self.fetcher.promise(file))?,
        };
        Ok(RemoteFile {
            sha256: file.sha256.or(promise.sha256),
            checksum: promise.checksum,
            ..file.clone()
        })
    }

    /// The header of a file whose manifest is known. `None` when the file proves to have another.
    fn header(&self, file: &RemoteFile, manifest: &Manifest) -> Result<Option<Vec<u8>>, PullError> {
        if manifest.kind == ManifestKind::File {
            return Ok(Some(Vec::new()));
        }
        if let Some(header) = find_header(
            ObjectId(manifest.header_digest),
            &self.destination.domains(),
            self.store(),
        ) {
            return Ok(Some(header.to_vec()));
        }
        if manifest.data_start > LENGTH_FIELD_LEN + MAX_HEADER_LEN {
            return Ok(None);
        }
        let header = self.bytes(file, 0..manifest.data_start)?;
        Ok((Digest::of(&header) == manifest.header_digest).then_some(header))
    }

    /// The manifest of a file by its identity, or by the list of an earlier pull.
    fn manifest_of(
        &self,
        file: &RemoteFile,
        key: Option<&IdentityKey>,
    ) -> Option<(ManifestId, Manifest)> {
        let bound = key.map_or_else(|| Ok(self.listed(file)), |key| self.store().look_up(key));
        let known = bound.and_then(|id| {
            let Some(id) = id else { return Ok(None) };
            Ok(self.store().manifest(id)?.map(|manifest| (id, manifest)))
        });
        match known {
            Ok(known) => known.filter(|(_, manifest)| {
                manifest.source_size == file.size && manifest.kind == file.kind()
            }),
            Err(error) => {
                tracing::warn!(%error, "identity ignored; the file is read again");
                None
            }
        }
    }

    /// Maps the objects of a manifest, and fetches the missing ones. `None` when the file proves to
    /// have other bytes.
    fn complete(
        &self,
        file: &RemoteFile,
        manifest: &Manifest,
    ) -> Result<Option<Completed>, PullError> {
        let refs: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
        let limit = MapLimit::default();
        let threads = self.options.threads.get();
        let present = map_objects(self.store(), &refs, Access::ReadOnly, threads, &limit);
        let jobs = jobs_of_manifest(manifest);
        let is_short = |job: &Job| job.run_at().is_some() || job.len() <= MAX_PACK;
        if !jobs.iter().all(is_short) {
            return Ok(None);
        }
        let missing: Vec<WantedObject<'_>> = jobs
            .iter()
            .zip(&refs)
            .zip(&present)
            .filter(|(_, mapping)| mapping.is_none())
            .map(|((job, &object), _)| WantedObject {
                job,
                expected: Some(object),
            })
            .collect();
        let to_fetch: u64 = missing.iter().map(|wanted| wanted.job.len()).sum();
        self.fetcher.count_done(file.size.saturating_sub(to_fetch));
        let new = missing.len();
        let fetched = match self.objects(file, &[], None).run(&missing) {
            Ok(fetched) => fetched,
            Err(ObjectsError::Mismatch) => return Ok(None),
            Err(ObjectsError::Pull(error)) => return Err(error),
        };
        let fetched = fetched.into_iter().map(|published| published.mapping);
        let objects = filled(present, fetched);
        Ok(Some(Completed { objects, new }))
    }

    /// The manifest that an earlier pull of the source had for this version of a file.
    fn listed(&self, file: &RemoteFile) -> Option<ManifestId> {
        let listed = self.earlier?.file(&file.path)?;
        let version = Digest(file.source_digest()?);
        listed.version.filter(|listed| *listed == version)?;
        listed.manifest
    }

    fn objects<'f>(
        &'f self,
        file: &'f RemoteFile,
        front: &'f [u8],
        journal: Option<&'f Journal<'f>>,
    ) -> ObjectFetch<'f> {
        ObjectFetch {
            fetcher: self.fetcher,
            destination: self.destination,
            file,
            runtime: self.runtime,
            options: self.options,
            front,
            journal,
        }
    }

    /// The file by the sidecar beside it. `None` when the sidecar is not valid for it.
    fn by_sidecar(
        &self,
        file: &RemoteFile,
        sidecar: &RemoteFile,
    ) -> Result<Option<PulledFile>, PullError> {
        // Without a digest of the file, only its age tells that the sidecar was made of this content.
        let is_later = matches!(
            (file.modified, sidecar.modified),
            (Some(file), Some(sidecar)) if sidecar >= file
        );
        if !(1..=MAX_SIDECAR).contains(&sidecar.size) || (file.sha256.is_none() && !is_later) {
            return Ok(None);
        }
        let before = self.fetcher.fetched();
        let bytes = self.bytes(sidecar, 0..sidecar.size)?;
        let ignored = |why: &str| {
            tracing::warn!(address = sidecar.address, why, "sidecar ignored");
            Ok(None)
        };
        let sidecar = match Sidecar::decode(&bytes) {
            Ok(sidecar) if sidecar.size() == file.size => sidecar,
            Ok(_) => return ignored("it is of another version of the file"),
            Err(error) => return ignored(&error.to_string()),
        };
        let header = match file.sha256 {
            // With a promised digest of all bytes, samples of them prove nothing more.
            Some(_) => self.header(file, sidecar.manifest())?,
            None => self.sampled_header(file, &sidecar)?,
        };
        let Some(header) = header else {
            return ignored("it is of another version of the file");
        };
        let by_sidecar =
            self.by_manifest(file, sidecar.into_manifest(), header, KnownBy::Sidecar)?;
        let Some(mut by_sidecar) = by_sidecar else {
            return ignored("it is not that of the file");
        };
        by_sidecar.report.fetched = self.fetcher.fetched() - before;
        Ok(Some(by_sidecar))
    }

    /// The header of a file that agrees with the samples of a sidecar. `None` for another file.
    fn sampled_header(
        &self,
        file: &RemoteFile,
        sidecar: &Sidecar,
    ) -> Result<Option<Vec<u8>>, PullError> {
        let parts = self.parts(file, sidecar.sample_ranges())?;
        let more = |range| self.bytes(file, range);
        let parts = FetchedParts::new(&file.address, parts, &more);
        let failed = |failure| changed(failure, file);
        if !sidecar.agrees(&parts).map_err(failed)? {
            return Ok(None);
        }
        let mut header = vec![0; sidecar.manifest().data_start as usize];
        parts.read_at(&mut header, 0).map_err(failed)?;
        Ok(Some(header))
    }

    /// The file by a manifest of another node. `None` when no node has one, or it proves to be that of another file.
    fn by_peer(&self, file: &RemoteFile) -> Result<Option<PulledFile>, PullError> {
        let Some(peers) = self.peers else {
            return Ok(None);
        };
        let Some(manifest) = self.runtime.block_on(peers.manifest(file)) else {
            return Ok(None);
        };
        let before = self.fetcher.fetched();
        let by_peer = match self.header(file, &manifest)? {
            Some(header) => self.by_manifest(file, manifest, header, KnownBy::Peer)?,
            None => None,
        };
        let is_same = by_peer
            .as_ref()
            .is_some_and(|known| known.is_planned(self.options.threads.get()));
        if !is_same {
            tracing::warn!(
                address = file.address,
                "the manifest of a peer is not that of the file"
            );
            return Ok(None);
        }
        Ok(by_peer.map(|mut known| {
            known.report.fetched = self.fetcher.fetched() - before;
            known
        }))
    }

    /// The file by a manifest that may be its. `None` when it proves to be another's.
    fn by_manifest(
        &self,
        file: &RemoteFile,
        manifest: Manifest,
        header: Vec<u8>,
        known_by: KnownBy,
    ) -> Result<Option<PulledFile>, PullError> {
        let Some(completed) = self.complete(file, &manifest)? else {
            return Ok(None);
        };
        let stored = stored(file, &header, &manifest, &completed.objects);
        if broken_promise(file, &stored).is_some() {
            return Ok(None);
        }
        let mut known = PulledFile::known(file, Some(manifest.id()), header, completed.objects);
        known.report.known_by = known_by;
        known.report.new_objects = completed.new;
        known.unbound = Some(Unbound {
            manifest,
            new: Vec::new(),
            noted: Vec::new(),
        });
        Ok(Some(known))
    }

    /// Reads an unknown file, except for the objects of an earlier attempt.
    fn read(&self, file: &RemoteFile) -> Result<PulledFile, PullError> {
        let before = self.fetcher.fetched();
        let (planned, front) = self.plan(file)?;
        let journal = Journal::of(file, self.destination);
        let jobs = &planned.plan.jobs;
        let noted = |job: &Job| journal.object(job.run_at()?, job.len());
        let objects: Vec<Option<Published>> = jobs.iter().map(noted).collect();
        let wanted: Vec<WantedObject<'_>> = jobs
            .iter()
            .zip(&objects)
            .filter(|(_, object)| object.is_none())
            .map(|(job, _)| WantedObject {
                job,
                expected: None,
            })
            .collect();
        let known: u64 = objects
            .iter()
            .flatten()
            .map(|object| object.object.len)
            .sum();
        self.fetcher.count_done(known);
        let fetched = match self.objects(file, &front, Some(&journal)).run(&wanted) {
            Ok(fetched) => fetched,
            Err(ObjectsError::Pull(error)) => return Err(error),
            // No name is expected of these.
            Err(ObjectsError::Mismatch) => return Err(other_bytes(file)),
        };
        let objects = filled(objects, fetched);
        let noted: Vec<_> = jobs
            .iter()
            .filter_map(|job| Some((job.run_at()?, job.len())))
            .collect();
        let mut read = PulledFile::read(file, planned, objects);
        read.report.fetched = self.fetcher.fetched() - before;
        read.unbound = read.unbound.map(|unbound| Unbound { noted, ..unbound });
        Ok(read)
    }

    /// The objects to make of a file, and the first bytes of it, which were fetched for that.
    fn plan(&self, file: &RemoteFile) -> Result<(PlannedFile, Vec<u8>), PullError> {
        if file.kind() == ManifestKind::File {
            return Ok((PlannedFile::whole(file.size), Vec::new()));
        }
        let mut raw = self.bytes(file, 0..file.size.min(FRONT))?;
        let json_len = raw.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        let header_len = json_len.saturating_add(LENGTH_FIELD_LEN);
        if json_len <= MAX_HEADER_LEN && (raw.len() as u64..=file.size).contains(&header_len) {
            raw.extend(self.bytes(file, raw.len() as u64..header_len)?);
        }
        let header = parse_header(&raw, file)?;
        let mut small = PlannedFile::small_tensors(&header);
        small.retain(|range| range.end > raw.len() as u64);
        let mut parts = self.parts(file, small)?;
        let header_bytes = raw.get(..header.data_start as usize).unwrap_or_default();
        let header_bytes = header_bytes.to_vec();
        parts.push((0, raw));
        let more = |range| self.bytes(file, range);
        let parts = FetchedParts::new(&file.address, parts, &more);
        let threads = self.options.threads.get();
        let planned = PlannedFile::of_header(header, header_bytes, file.size, &parts, threads)
            .map_err(|failure| changed(failure, file))?;
        Ok((planned, parts.into_front()))
    }

    /// The bytes of a range, which the caller knows to be short.
    pub(crate) fn bytes(&self, file: &RemoteFile, range: Range<u64>) -> Result<Vec<u8>, PullError> {
        self.runtime.block_on(self.fetcher.bytes(file, range))
    }

    fn parts(
        &self,
        file: &RemoteFile,
        ranges: Vec<Range<u64>>,
    ) -> Result<Vec<(u64, Vec<u8>)>, PullError> {
        self.runtime.block_on(self.fetcher.parts(file, ranges))
    }
}

/// The header that begins a file.
pub(crate) fn parse_header(raw: &[u8], file: &RemoteFile) -> Result<Header, PullError> {
    let header = Header::parse(raw, file.size).map_err(|source| HeaderError::Invalid {
        path: file.address.clone().into(),
        source,
    });
    Ok(header.map_err(tetris_loader::LoadError::from)?)
}

/// `places` with `others` where there is nothing, in their order.
fn filled<T>(places: Vec<Option<T>>, others: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut others = others.into_iter();
    let places = places.into_iter();
    places
        .filter_map(|place| place.or_else(|| others.next()))
        .collect()
}

fn other_bytes(file: &RemoteFile) -> PullError {
    PullError::Changed {
        address: file.address.clone(),
        expected: "the bytes of its manifest".to_owned(),
        found: "others".to_owned(),
    }
}
