//! Removal of a run's files, in every case.
//!
//! The janitor is a child that the kernel does not kill: it removes the run's directory when its
//! input ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::BenchError;
use crate::process::{Launcher, Parent, Process};

/// Name of the role.
pub(super) const NAME: &str = "janitor";
/// Time limit for the last writers to die.
const GRACE: Duration = Duration::from_secs(10);

/// The run's directory, and the process that removes it when this one ends.
#[derive(Debug)]
pub(crate) struct Janitor {
    pub folder: PathBuf,
    process: Option<Process>,
}

impl Janitor {
    /// Creates a directory in `place`, and starts its janitor with the order that `order` makes for
    /// it.
    pub fn start<O: Serialize>(
        launcher: &Launcher,
        place: &Path,
        order: impl FnOnce(PathBuf) -> O,
    ) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new()
            .prefix("tetris-gpu-bench-")
            .tempdir_in(place);
        let folder = folder.map_err(BenchError::io("make a directory in", place))?;
        let order = order(folder.path().to_owned());
        let mut process = launcher.start_apart(NAME, &order)?;
        process.hear::<()>()?;
        // From here on the janitor removes it.
        let folder = folder.keep();
        let process = Some(process);
        Ok(Self { folder, process })
    }

    /// Removes the directory now.
    pub fn end(mut self) -> Result<(), BenchError> {
        self.process.take().map_or(Ok(()), Process::end)
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // After an error, which the caller already reports.
        let _removed = self.process.take().map(Process::end);
    }
}

/// Waits for the parent's end, and removes `folder`.
pub(crate) fn clean(folder: &Path, parent: &mut Parent) -> Result<(), BenchError> {
    parent.tell(&())?;
    while parent.wait() {}
    let deadline = Instant::now() + GRACE;
    loop {
        // A server that is being killed may still create its socket.
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                if Instant::now() > deadline {
                    return Err(BenchError::io("remove", folder)(error));
                }
                sleep(Duration::from_millis(20));
            }
            _ => return Ok(()),
        }
    }
}
