//! Processes that hold objects, as commands print them.

use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use serde_json::{Value, json};
use tetris_cli::holders::{
    Container, HolderProcess, HolderProcesses, Pod, ProcessInfo, SCAN_LIMIT, processes_of,
};
use tetris_store_layout::ObjectEntry;
use tetris_units::size::Bytes;

use super::error::Result;
use super::lookup::short;
use super::output::{self, Output};
use super::progress::Bar;
use super::table::{Side, Table};

/// Time after which a search shows its progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most processes that a table lists.
const SHOWN: usize = 20;

/// The processes that hold any of `objects`.
pub(crate) fn search(objects: &[ObjectEntry]) -> Result<HolderProcesses> {
    let begun = Instant::now();
    let mut bar: Option<Bar> = None;
    let progress = |done: usize, total: usize| {
        if begun.elapsed() >= PATIENCE {
            let bar = bar.get_or_insert_with(|| Bar::of_processes("looking for holders"));
            bar.set(done as u64, total as u64);
        }
    };
    Ok(processes_of(objects, SCAN_LIMIT, progress)?)
}

/// Prints the processes under a heading, if there are any.
pub(crate) fn print<'a>(
    processes: impl Iterator<Item = &'a HolderProcess>,
    out: &mut Output,
) -> Result {
    let processes: Vec<_> = processes.collect();
    if processes.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(&[
        ("HELD BY", Side::Right),
        ("COMMAND", Side::Left),
        ("USER", Side::Left),
        ("OBJECTS", Side::Right),
        ("BYTES", Side::Right),
        ("IN", Side::Left),
    ]);
    for process in processes.iter().take(SHOWN) {
        table.row([
            process.info.pid.to_string(),
            process.info.command.clone(),
            user(&process.info),
            process.objects.len().to_string(),
            Bytes(process.bytes()).to_string(),
            place(&process.info.container).unwrap_or_default(),
        ]);
    }
    table.print(out, "")?;
    match processes.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => out.line(format_args!(
            "and {more} more processes; --format json lists all"
        )),
    }
}

/// One process in a sentence: `4242 python of alice in pod prod/bert-7f`.
pub(crate) fn in_words(process: &HolderProcess) -> String {
    let ProcessInfo {
        pid,
        command,
        container,
        ..
    } = &process.info;
    let place = place(container).map(|place| format!(" in {place}"));
    format!(
        "{pid} {command} of {}{}",
        user(&process.info),
        place.unwrap_or_default()
    )
}

/// The user's name, or else the number.
pub(crate) fn user(process: &ProcessInfo) -> String {
    match (&process.user, process.uid) {
        (Some(name), _) => name.clone(),
        (None, Some(uid)) => uid.to_string(),
        (None, None) => "?".to_owned(),
    }
}

/// The pod, or else the container or service.
pub(crate) fn place(container: &Container) -> Option<String> {
    match container {
        Container { pod: Some(pod), .. } => Some(format!("pod {}", pod_name(pod))),
        Container { id: Some(id), .. } => Some(format!("container {}", short(id))),
        Container { unit, .. } => unit.clone(),
    }
}

fn pod_name(pod: &Pod) -> String {
    match (&pod.namespace, &pod.name) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => pod.uid.clone(),
    }
}

/// Reports on stderr which processes could not be looked at, if holders may be among them.
pub(crate) fn note_unseen(found: &HolderProcesses) {
    if found.hidden > 0 {
        let step = if geteuid().is_root() {
            "not even by root: they are in a sandbox or another user namespace"
        } else {
            "`sudo tetris` sees all"
        };
        output::note(format_args!(
            "{} other processes could not be looked at and may hold more; {step}",
            found.hidden
        ));
    }
    if found.skipped > 0 {
        output::note(format_args!(
            "{} processes were not looked at within {} s and may hold more",
            found.skipped,
            SCAN_LIMIT.as_secs()
        ));
    }
}

/// The processes for programs.
pub(crate) fn documents<'a>(processes: impl Iterator<Item = &'a HolderProcess>) -> Value {
    processes.map(document).collect()
}

fn document(process: &HolderProcess) -> Value {
    with_info(&process.info, process.objects.len() as u64, process.bytes())
}

/// A process with a number of objects and their bytes, for programs.
pub(crate) fn with_info(process: &ProcessInfo, objects: u64, bytes: u64) -> Value {
    let container = &process.container;
    let pod = container
        .pod
        .as_ref()
        .map(|pod| json!({ "uid": pod.uid, "namespace": pod.namespace, "name": pod.name }));
    json!({
        "pid": process.pid,
        "command": process.command,
        "uid": process.uid,
        "user": process.user,
        "pod": pod,
        "container": container.id,
        "unit": container.unit,
        "objects": objects,
        "bytes": bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_is_said() {
        let pod = |name: Option<&str>| {
            let mut container = Container::default();
            container.id = Some("ab".repeat(32));
            container.pod = Some(pod_of("0f9a", name));
            place(&container)
        };
        assert_eq!(pod(Some("bert")).as_deref(), Some("pod prod/bert"));
        assert_eq!(pod(None).as_deref(), Some("pod 0f9a"));
        let mut container = Container::default();
        assert_eq!(place(&container), None);
        container.unit = Some("serve.service".to_owned());
        assert_eq!(place(&container).as_deref(), Some("serve.service"));
        container.id = Some("ab".repeat(32));
        assert_eq!(place(&container).as_deref(), Some("container abababababab"));
    }

    fn pod_of(uid: &str, name: Option<&str>) -> Pod {
        Pod::new(uid, name.map(|name| ("prod", name)))
    }
}
