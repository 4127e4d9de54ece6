//! `tetris init --recreate`: removes the content of a store, so that a new one can take its place.

use std::path::Path;
use std::time::{Duration, Instant};

use tetris_store_layout::{ObjectEntry, Removed, StoreRemains};
use tetris_units::size::Bytes;
use tetris_wire::ConnectError;

use crate::command::error::{Error, Result};
use crate::command::exit::Code;
use crate::command::holding;
use crate::command::output::{self, printable};

/// Longest wait for a daemon's socket to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most holders that an error names.
const SHOWN: usize = 5;

/// The content that a store had before it was recreated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// Number of objects, those in quarantine included.
    pub(super) objects: u64,
    /// Bytes of all files.
    pub(super) bytes: u64,
    /// Objects that processes held, and keep until they end.
    pub(super) held_objects: u64,
}

/// Removes the content of the store in `dir`, unless it is in use and this is not forced.
pub(super) fn remove(dir: &Path, force: bool) -> Result<Lost> {
    if !dir.is_dir() {
        return Err(Error::message(
            Code::NoStore,
            format_args!(
                "there is no directory `{0}`; create a store with `tetris init {0}`",
                dir.display()
            ),
        ));
    }
    let remains = StoreRemains::of(dir)?;
    let objects = remains.held()?;
    if !force {
        require_no_daemon(dir)?;
        require_unused(dir, &objects)?;
    }
    let lost = Lost {
        objects: remains.objects.len() as u64,
        bytes: remains.bytes,
        held_objects: objects.len() as u64,
    };
    match remains.remove(force)? {
        Removed::All => Ok(lost),
        Removed::InUse => {
            require_unused(dir, &remains.held()?)?;
            Err(refused(dir, "a process began to use it"))
        }
    }
}

fn require_no_daemon(dir: &Path) -> Result {
    match tetris_wire::connect(&dir.join("daemon"), Instant::now() + PATIENCE) {
        Err(ConnectError::NoListener | ConnectError::Io(_)) => Ok(()),
        Ok(_) | Err(ConnectError::TimedOut) => Err(refused(
            dir,
            "a node daemon looks after it; stop `tetris-node` first, and start it again afterwards",
        )),
    }
}

fn require_unused(dir: &Path, held: &[ObjectEntry]) -> Result {
    if held.is_empty() {
        return Ok(());
    }
    let processes = holding::search(held)?;
    holding::note_unseen(&processes);
    let names: Vec<String> = processes
        .processes
        .iter()
        .take(SHOWN)
        .map(|process| printable(&holding::in_words(process)).into_owned())
        .collect();
    let by = match (
        names.is_empty(),
        processes.processes.len().saturating_sub(SHOWN),
    ) {
        (true, _) => "processes that cannot be seen here".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    };
    Err(refused(
        dir,
        format_args!(
            "{} of its objects are held by {by}; end these processes first",
            held.len()
        ),
    ))
}

fn refused(dir: &Path, reason: impl std::fmt::Display) -> Error {
    Error::message(
        Code::Failed,
        format_args!(
            "cannot recreate the store `{}`: {reason}. With --force it is recreated even so: processes keep their memory until they end, and share it with no new one",
            dir.display()
        ),
    )
}

/// Reports on stderr which content is gone.
pub(super) fn explain(lost: &Lost) {
    output::note(format_args!(
        "{} objects are gone, {} with all records; the next load of each model reads it again",
        lost.objects,
        Bytes(lost.bytes)
    ));
    if lost.held_objects > 0 {
        output::warning(format_args!(
            "{} objects were in use: their memory is freed when their processes end; restart these, and the node daemon if there is one",
            lost.held_objects
        ));
    }
}
