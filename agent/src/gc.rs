//! One reclaim pass: free what nobody references.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use tetris_store_layout::{ObjectEntry, ObjectRef, Reclaimed, Store, StoreError};

/// Which unreferenced objects to reclaim.
#[derive(Debug, Clone, Default)]
pub struct GcOptions {
    /// Only objects last used at least so long ago: loaded, or published.
    pub older_than: Duration,
    /// Stop when so many bytes are freed; otherwise free all.
    pub enough_bytes: Option<u64>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Objects freed, or that would be.
    pub freed_objects: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Objects that stay because someone references them.
    pub referenced_objects: u64,
    /// Their bytes.
    pub referenced_bytes: u64,
    /// Unreferenced objects that stay because they were used too recently, or enough was freed.
    pub kept_objects: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Objects that could not be reclaimed, for reasons that the log tells.
    pub failed_objects: u64,
    /// Manifests, derived records and identities removed because nothing is left of what they name.
    pub freed_records: u64,
}

/// Reclaims unreferenced objects, least recently used first, then records of which nothing is left.
///
/// The last use of an object is the latest of its publication and of any load of a model that has it
/// (LAYOUT.md 5.4).
pub fn collect(store: &Store, options: &GcOptions) -> Result<GcReport, StoreError> {
    let now = SystemTime::now();
    let mut report = GcReport::default();
    let holders = store.holders()?;
    let last_used = last_used(store)?;
    let use_of = |entry: &ObjectEntry| {
        let recorded = last_used.get(&entry.object).copied();
        recorded.map_or(entry.published, |at| at.max(entry.published))
    };
    let mut objects = store.objects()?.objects;
    objects.sort_by_cached_key(use_of);
    for entry in &objects {
        let len = entry.object.len;
        let age = now.duration_since(use_of(entry)).unwrap_or_default();
        let enough = options
            .enough_bytes
            .is_some_and(|bytes| report.freed_bytes >= bytes);
        let freed = if holders.of(entry) > 0 {
            Reclaimed::Referenced
        } else if age < options.older_than || enough {
            report.kept_objects += 1;
            report.kept_bytes += len;
            continue;
        } else if options.dry_run {
            Reclaimed::Freed { bytes: len }
        } else {
            store.reclaim(&entry.object).unwrap_or_else(|error| {
                // One object that cannot be reclaimed must not keep the others from it.
                tracing::warn!(%error, "object not reclaimed");
                report.failed_objects += 1;
                Reclaimed::Absent
            })
        };
        match freed {
            Reclaimed::Freed { bytes } => {
                report.freed_objects += 1;
                report.freed_bytes += bytes;
            }
            Reclaimed::Referenced => {
                report.referenced_objects += 1;
                report.referenced_bytes += len;
            }
            Reclaimed::Absent => {}
        }
    }
    if !options.dry_run {
        report.freed_records = collect_records(store)?;
    }
    Ok(report)
}

/// When each object was last used, by the records that name it. Damaged records name nothing.
fn last_used(store: &Store) -> Result<HashMap<ObjectRef, SystemTime>, StoreError> {
    let mut uses: HashMap<ObjectRef, SystemTime> = HashMap::new();
    let mut note = |object: ObjectRef, at: SystemTime| {
        let latest = uses.entry(object).or_insert(at);
        *latest = at.max(*latest);
    };
    for record in store.manifests()? {
        if let Ok(Some(manifest)) = store.manifest(record.id) {
            for entry in manifest.objects {
                note(entry.object, record.last_used);
            }
        }
    }
    for record in store.derived_records()? {
        if let Ok(Some(derived)) = store.derived_record(record.id) {
            note(derived.object, record.last_used);
        }
    }
    Ok(uses)
}

/// Removes records in the order of LAYOUT.md 5.4. A load that publishes at this moment may lose its
/// record to this, and is hashed once more then.
fn collect_records(store: &Store) -> Result<u64, StoreError> {
    let mut freed = 0;
    let listing = store.objects()?.objects;
    let present: HashSet<ObjectRef> = listing.iter().map(|entry| entry.object).collect();
    for record in store.derived_records()? {
        let alive = match store.derived_record(record.id) {
            Ok(derived) => derived.is_none_or(|derived| present.contains(&derived.object)),
            Err(_damaged) => false,
        };
        freed += u64::from(!alive && store.remove_derived(record.id)?);
    }
    let mut manifests = HashSet::new();
    for record in store.manifests()? {
        let alive = match store.manifest(record.id) {
            Ok(Some(manifest)) => {
                let mut objects = manifest.objects.iter();
                // A model without any bytes has no objects to lose.
                manifest.objects.is_empty() || objects.any(|entry| present.contains(&entry.object))
            }
            Ok(None) => true,
            Err(_damaged) => false,
        };
        if alive {
            manifests.insert(record.id);
        } else {
            freed += u64::from(store.remove_manifest(record.id)?);
        }
    }
    for (id, bound) in store.identities()? {
        let alive = bound.is_ok_and(|(_, manifest)| manifests.contains(&manifest));
        freed += u64::from(!alive && store.remove_identity(id)?);
    }
    Ok(freed)
}
