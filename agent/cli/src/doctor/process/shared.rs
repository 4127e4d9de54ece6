//! Objects that a process maps, and the models that they belong to.

use std::cmp::Reverse;
use std::path::PathBuf;

use serde_json::{Value, json};
use tetris_store_layout::{Manifest, ManifestId};
use tetris_units::size::Bytes;

use super::amount;
use super::memory::{Memory, Sizes};
use crate::doctor::check::Check;
use crate::doctor::store::OpenStore;

/// Models that the text names.
const SHOWN: usize = 3;
/// Digits of an id in the text.
const DIGITS: usize = 12;
/// Copied pages below this are those of a program that writes a little in place.
const NOTEWORTHY: u64 = 16 << 20;

/// The checks of shared memory.
pub(super) fn checks(memory: &Memory, open: Option<&OpenStore>) -> Vec<Check> {
    let mut checks = vec![objects(memory)];
    if let Some(open) = open.filter(|_| !memory.objects.is_empty()) {
        checks.push(models(memory, open));
    }
    checks.extend(copied(memory));
    checks
}

fn objects(memory: &Memory) -> Check {
    let (sizes, count) = (memory.shared(), memory.objects.len());
    let (others, of_others) = memory.foreign;
    let found = match (count, others) {
        (0, 0) => "no object is mapped".to_owned(),
        (0, _) => format!(
            "{others} objects of another store than this one, {} mapped",
            Bytes(of_others.mapped)
        ),
        _ => format!(
            "{count} objects, {} mapped, {} of it touched",
            Bytes(sizes.mapped),
            amount(sizes.resident)
        ),
    };
    let check = match (count, others) {
        (0, 0) => Check::note("shared", found),
        (0, _) => Check::note("shared", found)
            .expected("objects of the store that is looked at")
            .remedy("name the process's store with --store"),
        _ => Check::ok("shared", found),
    };
    check
        .fact("objects", count)
        .fact("mapped_bytes", sizes.mapped)
        .fact("resident_bytes", sizes.resident)
        .fact("large_bytes", sizes.large)
        .fact("objects_of_other_stores", others)
        .fact("mapped_bytes_of_other_stores", of_others.mapped)
}

/// A model with objects that the process maps.
struct MappedModel {
    id: ManifestId,
    /// The path by which a process loaded it last: a hint.
    path: Option<PathBuf>,
    mapped: u64,
    total: u64,
}

fn models(memory: &Memory, open: &OpenStore) -> Check {
    let mut models = mapped_models(memory, open);
    // Models that share tensors with those that are mapped come last.
    models.sort_by_key(|model| (model.mapped < model.total, Reverse(model.mapped), model.id));
    let shown: Vec<String> = models.iter().take(SHOWN).map(words).collect();
    let found = match models.len() {
        0 => "of no model that is recorded".to_owned(),
        count if count > SHOWN => format!("{}, and {} more", shown.join(", "), count - SHOWN),
        _ => shown.join(", "),
    };
    let list: Vec<Value> = models.iter().map(|model| {
        json!({ "manifest": model.id.to_string(), "last_path": model.path.as_ref().map(|path| path.to_string_lossy()), "mapped_bytes": model.mapped, "bytes": model.total })
    }).collect();
    Check::ok("models", found).fact("models", list)
}

fn mapped_models(memory: &Memory, open: &OpenStore) -> Vec<MappedModel> {
    let records = open.store.manifests().unwrap_or_default();
    let of_record = |id| {
        let manifest = open.store.manifest(id).ok()??;
        let mapped = mapped_bytes(&manifest, memory);
        let total = manifest.object_bytes();
        let path = |id| Some(open.store.last_path(id)?.path);
        (mapped > 0).then(|| MappedModel {
            id,
            path: path(id),
            mapped,
            total,
        })
    };
    records
        .iter()
        .filter_map(|record| of_record(record.id))
        .collect()
}

fn mapped_bytes(manifest: &Manifest, memory: &Memory) -> u64 {
    let objects = manifest.objects.iter().map(|entry| entry.object);
    let mapped = objects.filter(|object| memory.objects.contains_key(object));
    mapped.map(|object| object.len).fold(0, u64::saturating_add)
}

fn words(model: &MappedModel) -> String {
    let name = model.path.as_ref().and_then(|path| path.file_name());
    let id = match name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => model.id.to_string().chars().take(DIGITS).collect(),
    };
    if model.mapped == model.total {
        format!("{id} ({})", Bytes(model.total))
    } else {
        format!("{id} ({} of {})", Bytes(model.mapped), Bytes(model.total))
    }
}

/// Pages of objects that the process has written to, if there are any.
fn copied(memory: &Memory) -> Option<Check> {
    let Sizes { copied, mapped, .. } = memory.shared();
    let copied = copied.saturating_add(memory.foreign.1.copied);
    if copied == 0 {
        return None;
    }
    let found = format!(
        "{} of the weights were written to, and are the process's own",
        Bytes(copied)
    );
    let check = if copied >= NOTEWORTHY && copied >= mapped / 100 {
        Check::warning("copied", found)
            .expected("weights that are only read")
            .remedy("load with mode=\"read_only\", which names the function that writes")
    } else {
        Check::note("copied", found)
    };
    Some(check.fact("bytes", copied))
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::ObjectRef;

    use super::*;
    use crate::doctor::check::Status;

    fn memory(copied: u64) -> Memory {
        let mut memory = Memory::default();
        let sizes = Sizes {
            mapped: 1 << 30,
            resident: 1 << 29,
            copied,
            large: 0,
        };
        memory.objects.insert(ObjectRef::of(b"a"), sizes);
        memory
    }

    #[test]
    fn copied_pages_are_a_warning_when_they_are_many() {
        assert!(copied(&memory(0)).is_none());
        assert_eq!(copied(&memory(4096)).unwrap().status, Status::Note);
        let many = copied(&memory(64 << 20)).unwrap();
        assert_eq!(many.status, Status::Warning);
        assert!(
            many.remedy.is_some() && many.found.contains("64.0 MiB"),
            "{many:?}"
        );
    }

    #[test]
    fn objects_of_another_store_are_told_from_none() {
        let mut other = Memory::default();
        assert!(objects(&other).found.contains("no object"));
        other.foreign.0 = 2;
        let check = objects(&other);
        assert!(
            check.found.contains("another store") && check.remedy.is_some(),
            "{check:?}"
        );
        assert_eq!(objects(&memory(0)).status, Status::Ok);
    }
}
