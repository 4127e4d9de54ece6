//! Mapping many objects over several threads.

use std::convert::Infallible;

use tetris_store_layout::{Access, MapError, Mapping, ObjectRef, Store};

use crate::map_limit::{GIVE_BACK, MapLimit};
use crate::threads;

/// Number of objects per helper thread below which mapping is faster without it: a thread costs as
/// much as some ten mappings.
const OBJECTS_PER_THREAD: usize = 64;

/// Maps the objects that are in the store, one result per object in the same order.
///
/// A failure, e.g. a limit on mappings, counts as an absence; `limit` distinguishes the two.
pub fn map_objects(
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
        map_chunk(store, objects, access, limit, places);
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

/// Maps `objects` into `places`, up to the limit; at the limit, gives some of them back.
fn map_chunk(
    store: &Store,
    objects: &[ObjectRef],
    access: Access,
    limit: &MapLimit,
    places: &mut [Option<Mapping>],
) {
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
            if error.is_leased() || matches!(error, MapError::Damaged { .. }) {
                tracing::warn!(%error, "object ignored");
            } else {
                tracing::debug!(%error, "object not mapped");
            }
            None
        }
    }
}
