//! Sidecars beside the models at a source, so that other nodes fetch only what they do not have.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tetris_loader::sidecar::{self, Sidecar};
use tetris_loader::{MapLimit, map_objects};
use tetris_store_layout::{
    Access, Digest, Manifest, ManifestId, ManifestKind, Mapping, ObjectRef, Store,
};

use crate::error::PullError;
use crate::fetch::Fetcher;
use crate::file::{FilePull, MAX_SIDECAR};
use crate::listing::RemoteFile;
use crate::name::SourceName;
use crate::objects::changed;
use crate::options::PullOptions;
use crate::origin::{Origin, SmallFile};
use crate::pull::{ModelPull, runtime};
use crate::report::FileReport;
use crate::selection::{SIDECAR, Selection};
use crate::stored_file::StoredFile;

/// A sidecar at a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PushedSidecar {
    /// Path of the sidecar below the source.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// The manifest in it, in hexadecimal.
    pub manifest: String,
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

/// Pulls the safetensors files at a source into `store`, and writes their sidecars beside them. Those that are
/// there and right stay. `make_room` is as of [`pull`](crate::pull()).
///
/// # Errors
/// As of [`pull`](crate::pull()), and [`PullError::NotWritable`] for web servers and registries.
pub fn push(
    source: &SourceName,
    store: &Store,
    options: &PullOptions,
    make_room: &(dyn Fn(u64) -> bool + Sync),
) -> Result<PushReport, PullError> {
    let begun = Instant::now();
    let name = source.to_string();
    if matches!(source, SourceName::Web(_) | SourceName::Registry { .. }) {
        return Err(PullError::NotWritable { source_name: name });
    }
    if !store.is_writable() {
        return Err(PullError::ReadOnly {
            path: store.root().to_owned(),
        });
    }
    let runtime = runtime(options)?;
    let origin = Origin::new(source, options)?;
    let fetcher = Fetcher::new(&origin, options);
    let listing = runtime.block_on(fetcher.list(&name))?;
    let mut files = Selection::new(&name, &listing, options)?.files;
    let others = files.len();
    files.retain(|file| file.kind() == ManifestKind::Safetensors);
    if files.is_empty() {
        return Err(PullError::Nothing {
            source_name: name,
            all: others,
        });
    }
    fetcher.set_total(files.iter().map(|file| file.size).sum());
    let pull = ModelPull {
        files: FilePull {
            fetcher: &fetcher,
            store,
            runtime: runtime.handle(),
            options,
            make_room,
        },
        listing: &listing,
    };
    let mut reports = pull.run(&files)?;
    reports.sort_by(|a, b| a.file.path.cmp(&b.file.path));
    let mut sidecars = Vec::new();
    let mut missing = Vec::new();
    for report in &reports {
        let Some((id, manifest)) = manifest_of(report, store)? else {
            continue;
        };
        let path = format!("{}{SIDECAR}", report.file.path);
        if let Some(bytes) = present(&pull, &path, id)? {
            sidecars.push(PushedSidecar {
                path,
                bytes,
                manifest: id.to_string(),
                is_new: false,
            });
            continue;
        }
        let bytes = encode(&pull.files, &report.file, &manifest)?;
        sidecars.push(PushedSidecar {
            path: path.clone(),
            bytes: bytes.len() as u64,
            manifest: id.to_string(),
            is_new: true,
        });
        missing.push(SmallFile {
            path,
            address: format!("{}{SIDECAR}", report.file.address),
            bytes,
        });
    }
    if !missing.is_empty() {
        runtime.block_on(fetcher.put(&name, &missing))?;
    }
    Ok(PushReport {
        sidecars,
        fetched: fetcher.fetched(),
        requests: fetcher.requests(),
        duration: begun.elapsed(),
    })
}

/// The manifest of a pulled file; `None` for a file without tensors.
fn manifest_of(
    report: &FileReport,
    store: &Store,
) -> Result<Option<(ManifestId, Manifest)>, PullError> {
    let id = report.manifest.as_deref();
    let Some(id) = id.and_then(|id| id.parse::<Digest>().ok()).map(ManifestId) else {
        return Ok(None);
    };
    let manifest = store.manifest(id)?;
    manifest.map_or_else(
        || {
            Err(PullError::Changed {
                address: report.file.address.clone(),
                expected: format!("manifest {id} in the store"),
                found: "none: it was reclaimed meanwhile".to_owned(),
            })
        },
        |manifest| Ok(Some((id, manifest))),
    )
}

/// Length of the sidecar at `path`, if it is there and has this manifest.
fn present(
    pull: &ModelPull<'_>,
    path: &str,
    manifest: ManifestId,
) -> Result<Option<u64>, PullError> {
    let Some(file) = pull
        .listing
        .file(path)
        .filter(|file| file.size <= MAX_SIDECAR)
    else {
        return Ok(None);
    };
    let bytes = pull.files.bytes(file, 0..file.size)?;
    let is_same =
        Sidecar::decode(&bytes).is_ok_and(|sidecar| sidecar.into_manifest().id() == manifest);
    Ok(is_same.then_some(file.size))
}

/// The sidecar of a file whose objects are in the store. Its header is fetched: the store has only the digest.
fn encode(
    pull: &FilePull<'_>,
    file: &RemoteFile,
    manifest: &Manifest,
) -> Result<Vec<u8>, PullError> {
    let refs: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
    let threads = pull.options.threads.get();
    let limit = MapLimit::default();
    let objects = map_objects(pull.store, &refs, Access::ReadOnly, threads, &limit);
    let objects = objects.into_iter().collect::<Option<Vec<Mapping>>>();
    let objects = objects.ok_or_else(|| PullError::Changed {
        address: file.address.clone(),
        expected: "its objects in the store".to_owned(),
        found: "some were reclaimed meanwhile".to_owned(),
    })?;
    let header = pull.bytes(file, 0..manifest.data_start)?;
    let stored = StoredFile {
        path: file.address.clone().into(),
        header: &header,
        manifest,
        objects: &objects,
    };
    let modified = file.modified.unwrap_or(UNIX_EPOCH);
    sidecar::encode_of(&stored, file.size, seconds(modified), manifest)
        .map_err(|failure| changed(failure, file))
}

/// Seconds and nanoseconds since the epoch.
fn seconds(time: SystemTime) -> (i64, i64) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    (seconds, i64::from(since.subsec_nanos()))
}
