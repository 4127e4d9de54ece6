//! Locks: more than the kernel's list of them can be read with, on files of the attacker's own; and locks of both
//! kinds on all objects of its store.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tetris_agent::{Agent, LoadOptions};

use super::Rounds;
use crate::model;

const FILES: u32 = 500;
/// Locks on each of the attacker's files.
const EACH: u32 = 500;
/// The attacker's models, on whose objects it has locks.
const MODELS: u64 = 12;
const MODEL_BYTES: usize = 512 << 10;

#[derive(Clone, Copy)]
enum Kind {
    Ofd,
    Posix,
}

/// Takes the locks in the first round, and keeps them.
pub(super) fn elsewhere(rounds: &Rounds<'_>) -> Result<()> {
    let mut locked = Vec::new();
    rounds.repeat(Duration::from_secs(1), |round, tally| {
        if round == 1 {
            for number in 0..FILES {
                let path = rounds.scratch(&format!("locks-{number}"));
                let file = File::options()
                    .create(true)
                    .truncate(true)
                    .read(true)
                    .write(true)
                    .open(&path)
                    .with_context(|| path.display().to_string())?;
                std::fs::remove_file(&path)?;
                // The kernel adds a lock behind all before it: from the last to the first, each is the first.
                // A byte is left out between two, or the kernel would make one lock of them.
                for at in (0..EACH).rev() {
                    lock(&file, Kind::Ofd, i64::from(at) * 2, 1)?;
                }
                locked.push(file);
            }
        }
        tally.add("locks", u64::from(FILES) * u64::from(EACH));
        Ok(())
    })
}

/// Makes objects, and locks all that it finds in its store.
pub(super) fn on_objects(rounds: &Rounds<'_>) -> Result<()> {
    let mut locked: Vec<(PathBuf, File)> = Vec::new();
    rounds.repeat(Duration::from_millis(500), |round, tally| {
        let path = rounds.scratch(&format!("locked-{}", round % MODELS));
        if round <= MODELS {
            model::write(&path, round, MODEL_BYTES)?;
        }
        let options = LoadOptions::default().with_min_shared_bytes(0);
        let agent = Agent::open_store(&rounds.context.store)?;
        let model = agent.load_with(&path, &options)?;
        tally.count(match model.report().bytes_private {
            0 => "shared",
            _ => "private",
        });
        locked.retain(|(path, _)| path.exists());
        for path in objects(&rounds.context.store)? {
            if locked.iter().any(|(known, _)| *known == path) {
                continue;
            }
            // It can be gone by now.
            if let Ok(file) = File::open(&path) {
                for kind in [Kind::Posix, Kind::Ofd] {
                    lock(&file, kind, 0, 0)?;
                }
                locked.push((path, file));
            }
        }
        tally.add("locked", locked.len() as u64);
        Ok(())
    })
}

/// Object files of a store.
fn objects(store: &Path) -> Result<Vec<PathBuf>> {
    let folder = store.join("objects-v1");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn lock(file: &File, kind: Kind, start: i64, len: i64) -> Result<()> {
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    let request = match kind {
        Kind::Ofd => FcntlArg::F_OFD_SETLK(&lock),
        Kind::Posix => FcntlArg::F_SETLK(&lock),
    };
    fcntl(file, request).context("take a lock")?;
    Ok(())
}
