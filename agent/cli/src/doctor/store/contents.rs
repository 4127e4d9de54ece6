//! Contents of a store: objects in use, damaged ones, and foreign files.

use tetris_units::size::Bytes;

use super::OpenStore;
use crate::doctor::check::Check;

/// The checks of the contents.
pub(super) fn checks(open: &OpenStore) -> Vec<Check> {
    let mut checks = vec![objects(open)];
    checks.extend(quarantine(open));
    checks.extend(foreign(open));
    checks
}

fn objects(open: &OpenStore) -> Check {
    let (mut bytes, mut held, mut held_bytes) = (0_u64, 0_u64, 0_u64);
    for entry in &open.objects {
        bytes = bytes.saturating_add(entry.object.len);
        if open.held.contains(&entry.object) {
            held += 1;
            held_bytes = held_bytes.saturating_add(entry.object.len);
        }
    }
    let count = open.objects.len();
    let found = match count {
        0 => "no object yet".to_owned(),
        _ => format!(
            "{count} objects, {}; {} of it in use",
            Bytes(bytes),
            Bytes(held_bytes)
        ),
    };
    // The listing is empty when it failed; asked again, it gives the reason.
    let check = match open.store.objects() {
        Ok(_) => Check::ok("contents", found),
        Err(error) => Check::failure("contents", error.to_string()),
    };
    check
        .fact("objects", count)
        .fact("bytes", bytes)
        .fact("held_objects", held)
        .fact("held_bytes", held_bytes)
}

/// Objects that failed verification, if there are any.
fn quarantine(open: &OpenStore) -> Option<Check> {
    let damaged = open.store.quarantined().ok()?.objects;
    if damaged.is_empty() {
        return None;
    }
    let bytes = damaged.iter().map(|entry| entry.allocated).sum::<u64>();
    let found = format!("{} objects in quarantine, {}", damaged.len(), Bytes(bytes));
    Some(
        Check::warning("damage", found)
            .expected("none: memory that loses bits may be failing")
            .remedy("restart their processes, test the memory, and run `tetris gc --quarantined`")
            .fact("objects", damaged.len())
            .fact("bytes", bytes),
    )
}

/// Files that are no part of a store, if there are any.
fn foreign(open: &OpenStore) -> Option<Check> {
    let foreign = open.store.foreign().ok()?;
    let (path, reason) = foreign.first()?;
    let more = match foreign.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let found = format!("`{}`: {reason}{more}", path.display());
    Some(Check::note("foreign", found).fact("files", foreign.len()))
}
