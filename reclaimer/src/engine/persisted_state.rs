//! State that the daemon persists over restarts: times of last use, and learned policy state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tetris_reclaimer_core::State;
use tetris_store_layout::{
    IoError, ObjectId, RECLAIMER_STATE, RECLAIMER_STATE_NEW, read_without_waiting,
};
use thiserror::Error;

use crate::keep_warm::{Declaration, Pod};

const VERSION: u32 = 1;

/// Persisted state of one store.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistedState {
    version: u32,
    /// The store's random identity: times of another store's objects mean nothing.
    store_id: String,
    /// Learned state of the policies.
    pub(crate) state: State,
    /// Objects by the moment at which they were last seen held, in milliseconds since the epoch.
    last_held: BTreeMap<u64, Vec<String>>,
    /// Declarations at the time of writing. They hold until the API server answers.
    pub(crate) pods: Vec<(Pod, BTreeSet<Declaration>)>,
}

/// The persisted state cannot be read or written. The daemon goes on without it and loses only
/// experience.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PersistedStateError {
    /// The file cannot be written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The step that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] IoError),
    /// The content is not persisted state.
    #[error("kept state `{}` is damaged: {}; it is left out and will be replaced", path.display(), printable(source))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// Another version of the daemon wrote it.
    #[error("kept state `{}`: expected version {VERSION}, found {found}; it is left out and will be replaced", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version.
        found: u32,
    },
}

/// The parser's message on one line: it shows names of fields as the file has them.
fn printable(error: &serde_json::Error) -> String {
    let mut text = String::new();
    for character in error.to_string().chars() {
        if character.is_control() {
            text.extend(character.escape_debug());
        } else {
            text.push(character);
        }
    }
    text
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// Path of a store's persisted state.
pub(crate) fn path(state_dir: Option<&Path>, name: &str, root: &Path) -> PathBuf {
    match state_dir {
        Some(dir) => dir.join(format!("{name}.json")),
        None => root.join(RECLAIMER_STATE),
    }
}

/// Removes the persisted state of a store that is gone.
pub(crate) fn forget(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives the persisted state, outside of the store, a name that no daemon reads. That in a store goes with the records.
pub(crate) fn set_aside(path: &Path) -> std::io::Result<()> {
    if path.ends_with(RECLAIMER_STATE) {
        return Ok(());
    }
    match std::fs::rename(path, path.with_extension("json.suspect")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl PersistedState {
    pub(crate) fn new(
        store_id: String,
        state: State,
        last_held: &HashMap<ObjectId, u64>,
        pods: Vec<(Pod, BTreeSet<Declaration>)>,
    ) -> Self {
        let mut by_moment: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (id, at_ms) in last_held {
            by_moment.entry(*at_ms).or_default().push(id.to_string());
        }
        // The same state gives the same file.
        for ids in by_moment.values_mut() {
            ids.sort_unstable();
        }
        Self {
            version: VERSION,
            store_id,
            state,
            last_held: by_moment,
            pods,
        }
    }

    /// Learned state of the policies.
    pub fn policy_state(&self) -> &State {
        &self.state
    }

    /// Times at which objects were last seen held, if the state is of the store `store_id`.
    pub fn last_held(&self, store_id: &str) -> HashMap<ObjectId, u64> {
        if self.store_id != store_id {
            return HashMap::new();
        }
        let moments = self.last_held.iter();
        moments
            .flat_map(|(at_ms, ids)| ids.iter().map(|id| (id, *at_ms)))
            .filter_map(|(id, at_ms)| Some((id.parse().ok()?, at_ms)))
            .collect()
    }

    /// Reads the state; `None` if there is none.
    ///
    /// # Errors
    /// [`PersistedStateError`] if the file cannot be read, or is not one of this version.
    pub fn read(path: &Path) -> Result<Option<Self>, PersistedStateError> {
        let bytes = match read_without_waiting(path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = |source| PersistedStateError::Damaged {
            path: path.to_owned(),
            source,
        };
        // First the version alone: other fields may differ between versions.
        let VersionOnly { version: found } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if found != VERSION {
            let path = path.to_owned();
            return Err(PersistedStateError::Version { path, found });
        }
        serde_json::from_slice(&bytes).map_err(damaged).map(Some)
    }

    /// Replaces the state in the file. A crash leaves the old one or the new one.
    ///
    /// # Errors
    /// [`PersistedStateError`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PersistedStateError> {
        let bytes = serde_json::to_vec(self).map_err(|source| PersistedStateError::Damaged {
            path: path.to_owned(),
            source,
        })?;
        let staged = if path.ends_with(RECLAIMER_STATE) {
            path.with_file_name(RECLAIMER_STATE_NEW)
        } else {
            path.with_extension("json.new")
        };
        let written = write_new(&staged, &bytes)
            .and_then(|()| std::fs::rename(&staged, path))
            .map_err(|source| failed("write", path, source));
        if written.is_err() {
            let _nothing_partial_stays = std::fs::remove_file(&staged);
        }
        written
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Left by a daemon that was killed here; it may also be a link that someone has put there.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> PersistedStateError {
    PersistedStateError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
