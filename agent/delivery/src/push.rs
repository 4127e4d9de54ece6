//! Sidecars beside the models at a source, so that other nodes fetch only what they do not have.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tetris_loader::sidecar::{self, Sidecar};
use tetris_loader::{MapLimit, StoredFile, map_objects};
use tetris_store_layout::{Access, ManifestId, ManifestKind, Mapping, ObjectRef};

use crate::destination::Destination;
use crate::error::PullError;
use crate::file::{FilePull, MAX_SIDECAR};
use crate::listing::RemoteFile;
use crate::name::SourceName;
use crate::objects::changed;
use crate::options::PullOptions;
use crate::origin::SmallFile;
use crate::pull::{ModelPull, with_listing};
use crate::pulled_file::PulledFile;
use crate::selection::SIDECAR;

/// A sidecar at a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PushedSidecar {
    /// Path of the sidecar below the source.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// The manifest in it.
    pub manifest: ManifestId,
    /// False where the source had it already.
    pub is_new: bool,
}

/// The outcome of a push.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PushReport {
    /// One for each safetensors file with tensors.
    pub sidecars: Vec<PushedSidecar>,
    /// Bytes fetched from the source.
    pub fetched: u64,
    /// Requests to the source.
    pub requests: u64,
    /// Time that it took.
    pub duration: Duration,
}

/// Pulls the safetensors files at a source into a store, and writes their sidecars beside them. Right ones
/// stay.
///
/// # Errors
/// As of [`pull`](crate::pull()), and [`PullError::NotWritable`] for web servers and registries.
pub fn push(
    source: &SourceName,
    destination: Destination<'_>,
    options: &PullOptions,
) -> Result<PushReport, PullError> {
    let begun = Instant::now();
    if matches!(source, SourceName::Web(_) | SourceName::Registry { .. }) {
        return Err(PullError::NotWritable {
            source_name: source.to_string(),
        });
    }
    destination.require_writable()?;
    with_listing(source, options, |mut source| {
        let selected = source.selection.files.len();
        let is_model = |file: &&RemoteFile| file.kind() == ManifestKind::Safetensors;
        source.selection.files.retain(is_model);
        if source.selection.files.is_empty() {
            return Err(PullError::Nothing {
                source_name: source.name.to_owned(),
                all: selected,
            });
        }
        let pull = ModelPull::new(&source, destination, None);
        let mut sidecars = Vec::new();
        let mut missing = Vec::new();
        for PulledFile { report, header, .. } in pull.run(&source.selection.files)? {
            let Some(id) = report.manifest else {
                continue;
            };
            let path = format!("{}{SIDECAR}", report.file.path);
            let present = present(&pull.files, source.listing.file(&path), id)?;
            let bytes = if let Some(bytes) = present {
                bytes
            } else {
                let bytes = encode(&pull.files, &report.file, id, &header)?;
                let len = bytes.len() as u64;
                missing.push(SmallFile {
                    path: path.clone(),
                    address: format!("{}{SIDECAR}", report.file.address),
                    bytes,
                });
                len
            };
            sidecars.push(PushedSidecar {
                path,
                bytes,
                manifest: id,
                is_new: present.is_none(),
            });
        }
        if !missing.is_empty() {
            let put = source.fetcher.put(source.name, &missing);
            source.runtime.block_on(put)?;
        }
        Ok(PushReport {
            sidecars,
            fetched: source.fetcher.fetched(),
            requests: source.fetcher.requests(),
            duration: begun.elapsed(),
        })
    })
}

/// Length of a sidecar at the source, if it is there and has this manifest.
fn present(
    pull: &FilePull<'_>,
    sidecar: Option<&RemoteFile>,
    manifest: ManifestId,
) -> Result<Option<u64>, PullError> {
    let Some(file) = sidecar.filter(|file| file.size <= MAX_SIDECAR) else {
        return Ok(None);
    };
    let bytes = pull.bytes(file, 0..file.size)?;
    let is_same =
        Sidecar::decode(&bytes).is_ok_and(|sidecar| sidecar.into_manifest().id() == manifest);
    Ok(is_same.then_some(file.size))
}

/// The sidecar of a file whose objects are in the store.
fn encode(
    pull: &FilePull<'_>,
    file: &RemoteFile,
    id: ManifestId,
    header: &[u8],
) -> Result<Vec<u8>, PullError> {
    let reclaimed = || PullError::Changed {
        address: file.address.clone(),
        expected: format!("the objects of manifest {id} in the store"),
        found: "some were reclaimed meanwhile".to_owned(),
    };
    let manifest = pull.destination.store.manifest(id)?.ok_or_else(reclaimed)?;
    let refs: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
    let threads = pull.options.threads.get();
    let limit = MapLimit::default();
    let objects = map_objects(
        pull.destination.store,
        &refs,
        Access::ReadOnly,
        threads,
        &limit,
    );
    let objects = objects.into_iter().collect::<Option<Vec<Mapping>>>();
    let objects = objects.ok_or_else(reclaimed)?;
    let stored = StoredFile {
        path: file.address.as_ref(),
        header,
        manifest: &manifest,
        objects: &objects,
    };
    let modified = file.modified.unwrap_or(UNIX_EPOCH);
    sidecar::encode_of(&stored, file.size, seconds(modified), &manifest)
        .map_err(|failure| changed(failure, file))
}

/// Seconds and nanoseconds since the epoch.
fn seconds(time: SystemTime) -> (i64, i64) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    (seconds, i64::from(since.subsec_nanos()))
}
