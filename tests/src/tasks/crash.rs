//! Scenarios in which a process is killed at each step that it passes.
//!
//! What a scenario does with its private things comes first and passes the same steps every time;
//! then it works on what other processes work on as well.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::ensure;
use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::{Agent, LoadOptions};
use tetris_store_layout::{
    Access, DerivedKey, Digest, IdentityBy, IdentityKey, Manifest, ManifestKind, ManifestObject,
    ObjectKind, ObjectRef, Reclaimed, Store, TensorId,
};

use super::answer;
use crate::model::{bytes, cold_model, fingerprint, fingerprint_of_file, pull_model};
use crate::pool::{Held, PINNED, POOL, pool_bytes};
use crate::task::{CrashTask, Scenario};

pub(super) fn run(task: &CrashTask) -> anyhow::Result<()> {
    let store = Store::open(&task.store)?;
    match task.scenario {
        Scenario::Publish => publish(&store, task.seed)?,
        Scenario::Map => map(&store)?,
        Scenario::Reclaim => reclaim(&store, task.seed)?,
        Scenario::Records => records(&store, task.seed)?,
        Scenario::ColdLoad | Scenario::Reload => load(task)?,
        Scenario::Pull => pull(&store, task)?,
        Scenario::Collect => {
            collect(&store, &GcOptions::default())?;
        }
        Scenario::Quarantine => {
            store.set_records_aside()?;
        }
    }
    answer(&())
}

fn own_bytes(seed: u64, index: u64, len: usize) -> Vec<u8> {
    bytes(2_000_000 + seed * 100 + index, len)
}

fn publish_checked(store: &Store, bytes: &[u8]) -> anyhow::Result<Held> {
    let published = Held::from(store.publish(bytes, Access::ReadOnly)?);
    ensure!(published.object == ObjectRef::of(bytes), "another object");
    published.check(store)?;
    Ok(published)
}

fn publish(store: &Store, seed: u64) -> anyhow::Result<()> {
    for (index, len) in (0..).zip([0, 3_000, (4 << 20) + 1]) {
        publish_checked(store, &own_bytes(seed, index, len))?;
    }
    for index in [seed, seed + 1] {
        publish_checked(store, &pool_bytes(index))?;
    }
    Ok(())
}

fn map(store: &Store) -> anyhow::Result<()> {
    let object = ObjectRef::of(&bytes(PINNED, 10_000));
    for access in [Access::ReadOnly, Access::CopyOnWrite] {
        let mapping = Held::map(store, object, access)?;
        let mapped = mapping.ok_or_else(|| anyhow::anyhow!("INV-3: the pinned object is gone"))?;
        mapped.check(store)?;
    }
    for index in 0..POOL {
        let object = ObjectRef::of(&pool_bytes(index));
        if let Some(held) = Held::map(store, object, Access::ReadOnly)? {
            held.check(store)?;
        }
    }
    Ok(())
}

fn reclaim(store: &Store, seed: u64) -> anyhow::Result<()> {
    let published = publish_checked(store, &own_bytes(seed, 10, 5_000))?;
    let object = published.object;
    let busy = store.reclaim(&object)?;
    ensure!(busy == Reclaimed::Referenced, "INV-3: {busy:?}");
    published.check(store)?;
    drop(published);
    // Someone else may be faster, or map it to verify it.
    store.reclaim(&object)?;
    for index in 0..POOL {
        store.reclaim(&ObjectRef::of(&pool_bytes(index)))?;
    }
    Ok(())
}

/// The manifest of a whole file of these bytes.
pub(super) fn file_manifest(object: ObjectRef) -> Manifest {
    Manifest {
        kind: ManifestKind::File,
        source_size: object.len,
        data_start: 0,
        header_digest: Digest::of(b""),
        metadata: Vec::new(),
        objects: vec![ManifestObject {
            object,
            kind: ObjectKind::File,
        }],
        tensors: Vec::new(),
    }
}

fn records(store: &Store, seed: u64) -> anyhow::Result<()> {
    let objects = [20, 21].map(|index| own_bytes(seed, index, 500));
    let key = identity(seed);
    for bytes in &objects {
        let published = publish_checked(store, bytes)?;
        let id = store.publish_manifest(&file_manifest(published.object))?;
        // The second binding replaces the first.
        store.bind(&key, id)?;
        let bound = store.look_up(&key)?;
        ensure!(bound.is_none_or(|found| found == id), "{bound:?}, not {id}");
    }
    let derived = DerivedKey::new(TensorId::of(&objects[0]), "own", 1)?;
    let wait = Duration::from_secs(10);
    for (index, access) in [(22, Access::ReadOnly), (23, Access::CopyOnWrite)] {
        let bytes = own_bytes(seed, index, 700);
        let make = || Ok::<_, Infallible>(bytes.clone());
        let made = store.get_or_create(&derived, access, wait, make);
        let derived = Held::from(made.map_err(|error| error.publish().0)?);
        derived.check(store)?;
        let object = derived.object;
        drop(derived);
        // So that the next one is made, and its record replaces this one.
        store.reclaim(&object)?;
    }
    shared_records(store, seed)
}

/// An identity that only this seed uses.
fn identity(seed: u64) -> IdentityKey {
    IdentityKey {
        kind: ManifestKind::File,
        by: IdentityBy::Sha256 {
            digest: [(seed % 256) as u8; 32],
            size: seed,
        },
    }
}

/// Binds an identity, and makes a derived object, that all processes use.
pub(super) fn shared_records(store: &Store, seed: u64) -> anyhow::Result<()> {
    let published = publish_checked(store, &pool_bytes(seed))?;
    let key = identity(u64::MAX);
    let id = store.publish_manifest(&file_manifest(published.object))?;
    store.bind(&key, id)?;
    if let Some(found) = store.look_up(&key)? {
        let of_pool = |index| file_manifest(ObjectRef::of(&pool_bytes(index))).id() == found;
        ensure!(
            (0..POOL).any(of_pool),
            "a manifest that nobody bound: {found}"
        );
    }
    let derived = DerivedKey::new(TensorId::of(b"shared"), "shared", 1)?;
    let make = || Ok::<_, Infallible>(bytes(3_000_000 + seed % 3, 900));
    let made = store.get_or_create(&derived, Access::ReadOnly, Duration::from_secs(10), make);
    let made = Held::from(made.map_err(|error| error.publish().0)?);
    let possible = (0..3).map(|n| ObjectRef::of(&bytes(3_000_000 + n, 900)));
    ensure!(
        possible.into_iter().any(|object| object == made.object),
        "an object that nobody derived"
    );
    made.check(store)
}

fn pull(store: &Store, task: &CrashTask) -> anyhow::Result<()> {
    pull_model(store, &task.models.join(cold_model(task.seed)))
}

fn load(task: &CrashTask) -> anyhow::Result<()> {
    let path = task.models.join(cold_model(task.seed));
    let options = LoadOptions::default().with_threads(std::num::NonZeroUsize::new(1));
    let model = Agent::open_store(&task.store)?.load_with(&path, &options)?;
    ensure!(
        fingerprint(&model)? == fingerprint_of_file(&path)?,
        "wrong bytes"
    );
    Ok(())
}
