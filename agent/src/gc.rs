//! One reclaim pass: free unreferenced objects.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use tetris_store_layout::{IoError, ObjectEntry, ObjectRef, Reclaimed, Store, StoreError};

/// The choice of unreferenced objects to reclaim.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GcOptions {
    /// Least time since the last use, a load or the publication, of the freed objects.
    pub older_than: Duration,
    /// Number of freed bytes that ends the pass; without it, all are freed.
    pub enough_bytes: Option<u64>,
    /// Only report, and free nothing.
    pub dry_run: bool,
}

impl GcOptions {
    /// Sets [`GcOptions::older_than`].
    pub fn with_older_than(mut self, older_than: Duration) -> Self {
        self.older_than = older_than;
        self
    }

    /// Sets [`GcOptions::enough_bytes`].
    pub fn with_enough_bytes(mut self, enough_bytes: Option<u64>) -> Self {
        self.enough_bytes = enough_bytes;
        self
    }

    /// Sets [`GcOptions::dry_run`].
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// The report of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Objects freed, or that would be.
    pub freed_objects: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Objects that stay because they are referenced.
    pub referenced_objects: u64,
    /// Their bytes.
    pub referenced_bytes: u64,
    /// Unreferenced objects that stay because they were used too recently, or enough was freed.
    pub kept_objects: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Objects that could not be reclaimed, for reasons in the log.
    pub failed_objects: u64,
    /// Manifests, derived records and identities removed because all that they name is gone.
    pub freed_records: u64,
}

/// Reclaims unreferenced objects, least recently used first, then records of which nothing is left.
///
/// The last use of an object is the latest of its publication and of any load of a model that has it
/// (LAYOUT.md 5.4).
pub fn collect(store: &Store, options: &GcOptions) -> Result<GcReport, StoreError> {
    let now = SystemTime::now();
    let mut report = GcReport::default();
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
        let Some(held) = asked(store.is_held(&entry.object), &mut report) else {
            continue;
        };
        let freed = if held {
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
        report.freed_records = store.collect_records()?;
    }
    Ok(report)
}

/// Deletes quarantined objects that no one maps, those in quarantine for the longest first
/// (LAYOUT.md 5.5). [`GcOptions::older_than`] counts from the quarantine of an object.
///
/// # Errors
/// When the store cannot be listed. An object that cannot be deleted is counted.
pub fn collect_quarantined(store: &Store, options: &GcOptions) -> Result<GcReport, StoreError> {
    let now = SystemTime::now();
    let mut report = GcReport::default();
    let mut objects = store.quarantined()?.objects;
    objects.sort_by_key(|entry| entry.changed);
    for entry in &objects {
        let age = now.duration_since(entry.changed).unwrap_or_default();
        let enough = options
            .enough_bytes
            .is_some_and(|bytes| report.freed_bytes >= bytes);
        let is_held = store.is_quarantined_held(&entry.object);
        let Some(held) = asked(is_held, &mut report) else {
            continue;
        };
        if held {
            report.referenced_objects += 1;
            report.referenced_bytes += entry.allocated;
        } else if age < options.older_than || enough {
            report.kept_objects += 1;
            report.kept_bytes += entry.allocated;
        } else {
            let removed = options.dry_run || remove_quarantined(store, entry, &mut report);
            report.freed_objects += u64::from(removed);
            report.freed_bytes += if removed { entry.allocated } else { 0 };
        }
    }
    Ok(report)
}

/// An object's answer whether someone holds it. One that cannot be asked stays, and must not keep the others
/// from going.
fn asked(answer: Result<bool, IoError>, report: &mut GcReport) -> Option<bool> {
    answer
        .inspect_err(|error| {
            tracing::warn!(%error, "object not reclaimed");
            report.failed_objects += 1;
        })
        .ok()
}

fn remove_quarantined(store: &Store, entry: &ObjectEntry, report: &mut GcReport) -> bool {
    store
        .remove_quarantined(&entry.object)
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "quarantined object not deleted");
            report.failed_objects += 1;
            false
        })
}

/// Time of each object's last use, by the records that name it. Damaged records name nothing.
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
            let objects = store.derivation(&derived).map(|found| found.objects);
            for object in objects.unwrap_or_else(|_| vec![derived.object]) {
                note(object, record.last_used);
            }
        }
    }
    Ok(uses)
}
