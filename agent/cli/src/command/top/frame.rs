//! The lines of one look, cut to a width and a height.

use std::fmt::Write as _;
use tetris_units::size::Bytes;

use super::snapshot::Snapshot;
use crate::command::holding;
use crate::command::output::printable;
use crate::command::table::cut_begin;
use crate::command::time::ago;

/// Width without a terminal, in characters.
pub(super) const WIDTH: usize = 80;
/// Narrowest path that is shown.
const PATH_MIN: usize = 10;
/// Most processes listed for each store; the models get the rest of the screen.
const PROCESSES: usize = 8;

/// The lines of one look.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    snapshots: &'a [Snapshot],
}

impl<'a> Frame<'a> {
    /// The frame of stores at one moment.
    pub(super) const fn of(snapshots: &'a [Snapshot]) -> Self {
        Self { snapshots }
    }

    /// The lines, at most `height` of at most `width` characters.
    pub(super) fn lines(&self, height: usize, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        // Each store gets its part of the screen.
        let part = height / self.snapshots.len().max(1);
        for (index, snapshot) in self.snapshots.iter().enumerate() {
            if index > 0 {
                lines.push(String::new());
            }
            let of_store = of_store(snapshot, part.saturating_sub(1), width);
            lines.extend(of_store);
        }
        lines.truncate(height);
        let cut = lines.iter().map(|line| cut_end(line.trim_end(), width));
        cut.collect()
    }
}

fn of_store(snapshot: &Snapshot, height: usize, width: usize) -> Vec<String> {
    let mut lines = summary(snapshot);
    let loads = loads(snapshot);
    let processes = processes(snapshot, width);
    let below = loads.len() + processes.len();
    // The head, and a line for those that are left out.
    let room = height.saturating_sub(lines.len() + below + 2);
    lines.extend(models(snapshot, room, width));
    lines.extend(processes);
    lines.extend(loads);
    lines
}

fn summary(snapshot: &Snapshot) -> Vec<String> {
    let usage = &snapshot.usage;
    let used = usage.capacity.saturating_sub(usage.free);
    let mut lines = vec![
        format!(
            "{}  {} of {} used, {} free",
            printable(&snapshot.root),
            Bytes(used),
            Bytes(usage.capacity),
            Bytes(usage.free)
        ),
        format!(
            "models {}  objects {}, {}  loads {}",
            snapshot.models.len(),
            snapshot.objects,
            Bytes(snapshot.object_bytes),
            snapshot.creation_locks.max(snapshot.loading.len() as u64),
        ),
        format!(
            "mapped {} by {} references  saved against private copies {}",
            Bytes(snapshot.referenced_bytes),
            snapshot.holders,
            Bytes(snapshot.saved_bytes)
        ),
    ];
    if snapshot.holder_counts != "complete" {
        lines.push("more locks than are counted: references and savings are too low".to_owned());
    }
    if snapshot.quarantined > 0 {
        lines.push(format!(
            "quarantine {} objects, {}: tetris gc --quarantined",
            snapshot.quarantined,
            Bytes(snapshot.quarantined_bytes)
        ));
    }
    lines
}

fn models(snapshot: &Snapshot, room: usize, width: usize) -> Vec<String> {
    if snapshot.models.is_empty() {
        return Vec::new();
    }
    let path_width = width.saturating_sub(43).max(PATH_MIN);
    let mut lines = vec![format!(
        "{:<path_width$} {:>10} {:>7} {:>11} {:>10}",
        "MODEL", "SIZE", "HOLDERS", "IN STORE", "USED"
    )];
    for row in snapshot.models.iter().take(room.max(1)) {
        let name = match &row.last_path {
            Some(last) => printable(&last.path.to_string_lossy()).into_owned(),
            None => row.id.to_string(),
        };
        let used = ago(row.last_used);
        // The larger unit is enough: `3h 2m ago` is `3h`.
        let used = used.split(' ').next().unwrap_or_default();
        lines.push(format!(
            "{:<path_width$} {:>10} {:>7} {:>11} {:>10}",
            cut_begin(&name, path_width),
            Bytes(row.manifest.object_bytes()),
            row.holders,
            Bytes(row.resident),
            used
        ));
    }
    match snapshot.models.len().saturating_sub(room.max(1)) {
        0 => {}
        more => lines.push(format!("and {more} more models")),
    }
    lines
}

fn processes(snapshot: &Snapshot, width: usize) -> Vec<String> {
    let users = &snapshot.found;
    let mut lines = Vec::new();
    if !users.processes.is_empty() {
        lines.push(format!(
            "{:>8} {:<16} {:<12} {:>8} {:>10}  {}",
            "HELD BY", "COMMAND", "USER", "OBJECTS", "BYTES", "IN"
        ));
    }
    for process in users.processes.iter().take(PROCESSES) {
        let place = holding::place(&process.info.container).unwrap_or_default();
        lines.push(format!(
            "{:>8} {:<16} {:<12} {:>8} {:>10}  {}",
            process.info.pid,
            cut_end(&printable(&process.info.command), 16),
            cut_end(&printable(&holding::user(&process.info)), 12),
            process.objects.len(),
            Bytes(process.bytes()),
            cut_begin(&printable(&place), width.saturating_sub(60).max(PATH_MIN)),
        ));
    }
    let unseen = users.processes.len().saturating_sub(PROCESSES) as u64;
    let mut rest = String::new();
    if unseen > 0 {
        let _infallible = write!(rest, "and {unseen} more processes");
    }
    if users.hidden > 0 && snapshot.holders > 0 {
        let comma = if rest.is_empty() { "" } else { "; " };
        let hidden = users.hidden;
        let _infallible = write!(rest, "{comma}{hidden} could not be looked at");
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn loads(snapshot: &Snapshot) -> Vec<String> {
    let lines = snapshot.loading.iter().take(PROCESSES).map(|entry| {
        format!(
            "loading: {} {} of {} writes {} objects, {}",
            entry.info.pid,
            printable(&entry.info.command),
            printable(&holding::user(&entry.info)),
            entry.objects,
            Bytes(entry.bytes)
        )
    });
    lines.collect()
}

/// The first `width` characters of `text`, with a sign where it is cut.
fn cut_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let sign = if width > 3 { "..." } else { "" };
    let kept: String = text.chars().take(width - sign.len()).collect();
    kept + sign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_cut_say_so() {
        assert_eq!(cut_end("abcdefgh", 5), "ab...");
        assert_eq!(cut_end("abcde", 5), "abcde");
    }
}
