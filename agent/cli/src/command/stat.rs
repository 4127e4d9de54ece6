//! `tetris stat`: the use of the store, and the savings of sharing.

use std::collections::HashSet;

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_cli::holders::HolderProcesses;
use tetris_store_layout::{ObjectListing, Usage};
use tetris_units::size::Bytes;

use super::counts::HolderCounts;
use super::error::Result;
use super::holding;
use super::loading::lossy;
use super::ls::note_quarantined;
use super::output::{self, Output};
use super::pages::SeenPages;
use super::savings;
use super::time::{ago, unix_s};
use tetris_agent::store_location::StoreLocation;

/// Arguments of `stat`: none.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {}

/// Sums over the store's objects and records.
#[derive(Debug, Default)]
struct Sums {
    /// The numbers of holders; none in tests.
    counts: Option<HolderCounts>,
    objects: u64,
    object_bytes: u64,
    allocated: u64,
    referenced_objects: u64,
    referenced_bytes: u64,
    holders: u64,
    /// Sum of length times holders: the bytes that there would be without sharing.
    logical_bytes: u64,
    /// Bytes saved against mappings of the files through the page cache.
    saved_from_page_cache: u64,
    manifests: u64,
    derived: u64,
    layouts: u64,
    identities: u64,
    record_bytes: u64,
    quarantined: u64,
    quarantined_bytes: u64,
    foreign: Vec<String>,
    /// The processes that hold objects, those in quarantine included.
    processes: HolderProcesses,
}

impl Sums {
    fn of(store: &Store, listing: &ObjectListing) -> Result<Self> {
        let mut sums = Self::default();
        let counts = HolderCounts::of(store, &listing.objects)?;
        let mut referenced = HashSet::new();
        for entry in &listing.objects {
            let (len, held) = (entry.object.len, counts.number(entry));
            sums.objects += 1;
            sums.object_bytes += len;
            sums.allocated += entry.allocated;
            sums.holders += held;
            sums.logical_bytes = sums.logical_bytes.saturating_add(len.saturating_mul(held));
            if held > 0 {
                referenced.insert(entry.object);
                sums.referenced_objects += 1;
                sums.referenced_bytes += len;
            }
        }
        sums.saved_from_page_cache = savings::against_page_cache(store, &referenced)?;
        let foreign = listing.foreign.iter();
        sums.foreign = foreign
            .map(|entry| format!("`{}`: {}", entry.name.display(), entry.reason))
            .collect();
        let quarantined = store.quarantined()?.objects;
        let objects = listing.objects.iter();
        let with_holders = objects.filter(|entry| counts.number(entry) > 0);
        let mut referenced: Vec<_> = with_holders.copied().collect();
        for entry in &quarantined {
            if store.is_quarantined_held(&entry.object)? {
                referenced.push(*entry);
            }
        }
        sums.counts = Some(counts);
        sums.processes = holding::search(&referenced)?;
        sums.quarantined = quarantined.len() as u64;
        sums.quarantined_bytes = quarantined.iter().map(|entry| entry.allocated).sum();
        sums.records(store)?;
        Ok(sums)
    }

    fn records(&mut self, store: &Store) -> Result {
        self.manifests = store.manifests()?.len() as u64;
        for record in store.derived_records()? {
            // A damaged record is not known to be a layout.
            let layout =
                matches!(store.derived_record(record.id), Ok(Some(found)) if found.is_layout());
            let count = if layout {
                &mut self.layouts
            } else {
                &mut self.derived
            };
            *count += 1;
        }
        self.identities = store.identity_records()?.len() as u64;
        self.record_bytes = store.record_use()?.bytes;
        Ok(())
    }

    /// Copies that there would be of what is referenced, if every holder had its own. 1 when nothing
    /// is referenced: nothing is shared then.
    fn shared_factor(&self) -> f64 {
        if self.referenced_bytes == 0 {
            return 1.0;
        }
        self.logical_bytes as f64 / self.referenced_bytes as f64
    }

    fn saved(&self) -> u64 {
        self.logical_bytes.saturating_sub(self.referenced_bytes)
    }

    /// `complete` or `incomplete`, of the numbers of holders.
    fn counted(&self) -> &'static str {
        self.counts.as_ref().map_or("complete", HolderCounts::word)
    }
}

/// Runs `stat`.
pub(crate) fn run(_: &StatArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let store = location.open()?;
    let listing = store.objects()?;
    let sums = Sums::of(&store, &listing)?;
    let pages = SeenPages::of_objects(&store, &listing.objects);
    let usage = store.usage()?;
    if out.is_json() {
        return out.json(&document(&store, &sums, &usage, &pages));
    }
    out.fields(&fields(&store, &sums, &usage, &pages))?;
    holding::print(sums.processes.processes.iter(), out)?;
    out.flush()?;
    holding::note_unseen(&sums.processes);
    note_quarantined(sums.quarantined, sums.quarantined_bytes);
    if let Some(counts) = &sums.counts {
        counts.note();
    }
    if let Some(reason) = pages.small_because() {
        output::warning(format_args!(
            "models have 4 KiB pages here: {reason}{}",
            pages.remedy(&store)
        ));
    }
    for entry in &sums.foreign {
        output::warning(format_args!("not an object, left alone: {entry}"));
    }
    Ok(())
}

/// Bytes of the file system that are not this store's.
fn used_by_others(sums: &Sums, usage: &Usage) -> u64 {
    let by_store = sums.allocated + sums.record_bytes + sums.quarantined_bytes;
    usage
        .capacity
        .saturating_sub(usage.free)
        .saturating_sub(by_store)
}

fn document(store: &Store, sums: &Sums, usage: &Usage, pages: &SeenPages) -> Value {
    json!({
        "store": lossy(store.root()),
        "id": store.id().to_string(),
        "created_s": unix_s(store.created()),
        "writable": store.is_writable(),
        "capacity_bytes": usage.capacity,
        "free_bytes": usage.free,
        "inodes": usage.inodes,
        "inodes_free": usage.inodes_free,
        "huge": pages.huge(),
        "pages": pages.document(),
        "objects": sums.objects,
        "object_bytes": sums.object_bytes,
        "object_allocated_bytes": sums.allocated,
        "record_bytes": sums.record_bytes,
        "other_bytes": used_by_others(sums, usage),
        "manifests": sums.manifests,
        "derived": sums.derived,
        "layouts": sums.layouts,
        "identities": sums.identities,
        "referenced_objects": sums.referenced_objects,
        "referenced_bytes": sums.referenced_bytes,
        "holders": sums.holders,
        "holder_counts": sums.counted(),
        "shared_factor": sums.shared_factor(),
        "saved_bytes": sums.saved(),
        "processes": holding::documents(sums.processes.processes.iter()),
        "processes_hidden": sums.processes.hidden,
        "processes_skipped": sums.processes.skipped,
        "saved_against_page_cache_bytes": sums.saved_from_page_cache,
        "quarantined": sums.quarantined,
        "quarantined_bytes": sums.quarantined_bytes,
        "foreign": sums.foreign,
    })
}

/// Number of references, and a word where not all are counted.
fn references(sums: &Sums) -> String {
    let counted = match sums.counted() {
        "complete" => String::new(),
        word => format!(", {word}"),
    };
    format!("{} by all holders{counted}", sums.holders)
}

fn fields(
    store: &Store,
    sums: &Sums,
    usage: &Usage,
    pages: &SeenPages,
) -> Vec<(&'static str, String)> {
    let percent = |bytes: u64| 100.0 * bytes as f64 / usage.capacity.max(1) as f64;
    let part = |bytes: u64| format!("{} ({:.1}%)", Bytes(bytes), percent(bytes));
    let counted = |count: u64, bytes: u64| format!("{count}, {}", Bytes(bytes));
    let access = if store.is_writable() {
        ""
    } else {
        ", read-only for this process"
    };
    let records = format!(
        "{} manifests, {} identities, {} derived, {} layouts",
        sums.manifests, sums.identities, sums.derived, sums.layouts
    );
    let inodes = format!("{} of {}", usage.inodes_free, usage.inodes);
    vec![
        ("store", format!("{}{access}", store.root().display())),
        ("id", store.id().to_string()),
        ("created", ago(store.created())),
        ("capacity", Bytes(usage.capacity).to_string()),
        ("free", part(usage.free)),
        ("used by objects", part(sums.allocated)),
        ("used by records", part(sums.record_bytes)),
        ("used by others", part(used_by_others(sums, usage))),
        ("inodes free", inodes),
        ("pages", pages.text()),
        ("objects", counted(sums.objects, sums.object_bytes)),
        (
            "  referenced",
            counted(sums.referenced_objects, sums.referenced_bytes),
        ),
        (
            "  quarantined",
            counted(sums.quarantined, sums.quarantined_bytes),
        ),
        ("records", records),
        ("references", references(sums)),
        ("shared factor", format!("{:.2}", sums.shared_factor())),
        (
            "saved against private copies",
            Bytes(sums.saved()).to_string(),
        ),
        (
            "saved against the page cache",
            format!(
                "{}, with one file for each model in use",
                Bytes(sums.saved_from_page_cache)
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_factor_counts_copies_that_are_not_there() {
        assert!((Sums::default().shared_factor() - 1.0).abs() < 1e-9);
        // 300 bytes held three times, 100 bytes held once.
        let sums = Sums {
            referenced_bytes: 400,
            logical_bytes: 1000,
            ..Sums::default()
        };
        assert!((sums.shared_factor() - 2.5).abs() < 1e-9);
        assert_eq!(sums.saved(), 600);
    }
}
