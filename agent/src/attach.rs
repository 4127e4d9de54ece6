//! Attaching a file that is known: map its objects, and compare some of it with them.

use std::convert::Infallible;

use tetris_store_layout::{
    Access, Manifest, ManifestId, ManifestKind, MapError, Mapping, ObjectRef, Outcome, Store,
};

use crate::compare;
use crate::load::{Loader, PipelineOf};
use crate::map_limit::{GIVE_BACK, MapLimit};
use crate::model::Part;
use crate::pipeline::Hashed;
use crate::plan::{Job, jobs_of_manifest};
use crate::report::{LoadReport, Recognized};
use crate::source::{Failure, Source};
use crate::threads;

/// Objects per helper thread below which mapping is faster without it: a thread costs as much as
/// some ten mappings.
const OBJECTS_PER_THREAD: usize = 64;

/// A manifest that may be the file's.
pub(crate) struct Found {
    pub(crate) id: ManifestId,
    pub(crate) manifest: Manifest,
    /// How it was found.
    pub(crate) recognized: Recognized,
}

/// What is done about objects that are not in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are read from the file, and published where that is possible.
    Read,
    /// Nothing: the file is not attached.
    Leave,
}

/// Attaches `source` through a manifest. `None` when the manifest turns out not to be the file's.
///
/// Objects that were reclaimed meanwhile are published again from the file, or else nothing is attached: `missing` says.
pub(crate) fn attach(
    loader: &Loader<'_>,
    source: &Source,
    store: &Store,
    found: Found,
    if_missing: Missing,
) -> Result<Option<Part>, Failure> {
    let Found {
        id,
        manifest,
        recognized,
    } = found;
    if manifest.source_size != source.identity().size {
        return Ok(None);
    }
    let mut report = LoadReport {
        recognized: vec![recognized],
        ..LoadReport::default()
    };
    let objects: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
    let limit = MapLimit::default();
    let threads = loader.options.thread_count();
    let mapped = map_all(store, &objects, loader.options.access, threads, &limit);
    let mapped = mapped
        .into_iter()
        .map(|mapping| mapping.map(|m| (m, Outcome::Existing)));
    let mut hashed: Vec<Hashed> = objects
        .iter()
        .zip(mapped)
        .map(|(&object, mapping)| Hashed { object, mapping })
        .collect();
    if recognized.is_compared() {
        let object = |index: u32| {
            let (mapping, _) = hashed.get(index as usize)?.mapping.as_ref()?;
            Some(&**mapping)
        };
        if !compare::agrees(source, &manifest, object)? {
            disown(store, source, manifest.kind, recognized);
            return Ok(None);
        }
    }
    let mut refused = limit.reason();
    let missing = hashed.iter().any(|hashed| hashed.mapping.is_none());
    if missing && !limit.is_met() && if_missing == Missing::Leave {
        return Ok(None);
    }
    if missing && !limit.is_met() {
        match publish_missing(loader, source, store, &manifest, &mut hashed, &mut report)? {
            Published::Agrees { reason } => refused = reason,
            Published::Differs => {
                disown(store, source, manifest.kind, recognized);
                return Ok(None);
            }
        }
    }
    let run = crate::pipeline::Run {
        objects: hashed,
        bytes_read: 0,
        refused,
        at_map_limit: limit.is_met(),
    };
    let backings = loader.complete(source, &manifest, run, &mut report)?;
    if report.bytes_read > 0 {
        source.require_unchanged()?;
    }
    if recognized == Recognized::BySidecar && store.is_writable() {
        // For `ls` and `gc`; the file's identity is not bound to it (INV-10).
        if let Err(error) = store.publish_manifest(&manifest) {
            tracing::debug!(%error, "manifest of a sidecar not published");
        }
    }
    Ok(Some(Part::new(
        source.path(),
        id,
        manifest,
        backings,
        report,
    )))
}

enum Published {
    /// What was read is what the manifest says.
    Agrees {
        /// Why the store did not take all of it.
        reason: Option<String>,
    },
    /// The file has other bytes than the manifest says.
    Differs,
}

/// Reads the objects that are not in the store from the file and publishes them.
fn publish_missing(
    loader: &Loader<'_>,
    source: &Source,
    store: &Store,
    manifest: &Manifest,
    hashed: &mut [Hashed],
    report: &mut LoadReport,
) -> Result<Published, Failure> {
    let (places, jobs): (Vec<usize>, Vec<Job>) = jobs_of_manifest(manifest)
        .into_iter()
        .enumerate()
        .filter(|(index, _)| hashed.get(*index).is_some_and(|h| h.mapping.is_none()))
        .unzip();
    let pipeline = PipelineOf {
        loader,
        source,
        jobs: &jobs,
        store: Some(store),
        known_missing: true,
    };
    let run = pipeline.run()?;
    report.bytes_read += run.bytes_read;
    for (place, found) in places.into_iter().zip(run.objects) {
        match hashed.get_mut(place) {
            Some(expected) if expected.object == found.object => expected.mapping = found.mapping,
            _ => return Ok(Published::Differs),
        }
    }
    Ok(Published::Agrees {
        reason: run.refused,
    })
}

/// A binding that proved wrong must not mislead the next load.
pub(crate) fn disown(store: &Store, source: &Source, kind: ManifestKind, recognized: Recognized) {
    tracing::warn!(
        path = %source.path().display(),
        how = recognized.name(),
        "the file was recognized wrongly and is hashed"
    );
    if recognized == Recognized::ByStat
        && store.is_writable()
        && let Some(key) = source.stat_key(kind)
        && let Err(error) = store.unbind(&key)
    {
        tracing::warn!(%error, "a wrong identity stays in the store");
    }
}

/// Maps the objects that are there. A failure, such as a limit on mappings, is like an absence.
pub(crate) fn map_all(
    store: &Store,
    objects: &[ObjectRef],
    access: Access,
    threads: usize,
    limit: &MapLimit,
) -> Vec<Option<Mapping>> {
    let mut mapped = Vec::new();
    mapped.resize_with(objects.len(), || None);
    let threads = threads.min(objects.len() / OBJECTS_PER_THREAD).max(1);
    let chunk = objects.len().div_ceil(threads).max(1);
    let tasks = objects
        .chunks(chunk)
        .zip(mapped.chunks_mut(chunk))
        .collect();
    let done = threads::for_each(threads, tasks, |(objects, places)| {
        for (index, object) in objects.iter().enumerate() {
            if limit.is_met() {
                break;
            }
            let (done, rest) = places.split_at_mut_checked(index).unwrap_or_default();
            let Some(place) = rest.first_mut() else { break };
            *place = map_one(store, object, access, |error| {
                if limit.meet(error) {
                    done.iter_mut()
                        .rev()
                        .take(GIVE_BACK)
                        .for_each(|place| *place = None);
                }
            });
        }
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(()) if limit.is_met() => {
            // The threads had few each to give back.
            let given = mapped.iter_mut().filter(|place| place.is_some());
            given.take(GIVE_BACK).for_each(|place| *place = None);
            mapped
        }
        Ok(()) => mapped,
    }
}

fn map_one(
    store: &Store,
    object: &ObjectRef,
    access: Access,
    failed: impl FnOnce(&MapError),
) -> Option<Mapping> {
    match store.map(object, access) {
        Ok(mapping) => mapping,
        Err(error) => {
            failed(&error);
            if matches!(error, MapError::Damaged { .. }) {
                tracing::warn!(%error, "object ignored");
            } else {
                tracing::debug!(%error, "object not mapped");
            }
            None
        }
    }
}
