//! Descriptors of what is no model file, of files that change, and of many files.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tetris_agent::ManifestKind;
use tetris_agent::daemon::{DaemonClient, DaemonError};

use super::tally::Tally;

const ANSWER: Duration = Duration::from_secs(30);
/// Number of times that a changed descriptor is passed.
const ROUNDS: u64 = 20;
const CHANGING_BYTES: u64 = 8 << 20;
const SPARSE_BYTES: u64 = 1 << 40;

struct Passer {
    socket: PathBuf,
}

impl Passer {
    fn pass(&self, file: BorrowedFd<'_>, kind: ManifestKind) -> String {
        match DaemonClient::new(&self.socket, ANSWER).ingest(file, kind, |_, _| {}) {
            Ok(_) => "ingested".to_owned(),
            Err(DaemonError::Refused(refusal)) => {
                format!("refused for reason {}", refusal.reason.0)
            }
            Err(error) if error.is_absent() => "no daemon".to_owned(),
            Err(_) => "no answer".to_owned(),
        }
    }

    /// Whole, as which everything would be taken that can be read.
    fn tell(&self, what: &'static str, file: impl AsFd) -> Result<()> {
        let mut tally = Tally::new(what);
        tally.count(self.pass(file.as_fd(), ManifestKind::File));
        Ok(tally.say()?)
    }
}

pub fn run(root: &Path, scratch: &Path, files: u64, seed: u64) -> Result<()> {
    let passer = Passer {
        socket: root.join("daemon"),
    };
    no_files(&passer, scratch)?;
    changing(&passer, &scratch.join("changing"), seed)?;
    many(&passer, &scratch.join("many"), files, seed)
}

fn no_files(passer: &Passer, scratch: &Path) -> Result<()> {
    let read_write = |path: &str| File::options().read(true).write(true).open(path);
    passer.tell("a directory", File::open(scratch)?)?;
    let fifo = scratch.join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU)?;
    passer.tell(
        "a FIFO",
        File::options().read(true).write(true).open(&fifo)?,
    )?;
    passer.tell("the null device", read_write("/dev/null")?)?;
    passer.tell("the zero device", read_write("/dev/zero")?)?;
    passer.tell("a file of proc", File::open("/proc/self/mountinfo")?)?;
    passer.tell("a socket", UnixStream::pair()?.0)?;
    let only_path = File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(root_file(scratch)?)?;
    passer.tell("a path", only_path)?;
    let only_written = File::options().write(true).open(root_file(scratch)?)?;
    passer.tell("a file for writing", only_written)?;
    let sparse = File::create_new(scratch.join("sparse"))?;
    sparse.set_len(SPARSE_BYTES)?;
    passer.tell("a huge sparse file", File::open(scratch.join("sparse"))?)
}

fn root_file(scratch: &Path) -> Result<PathBuf> {
    let path = scratch.join("some");
    std::fs::write(&path, b"some bytes")?;
    Ok(path)
}

/// Files that grow, are cut short or written to while they are read. What is taken must have been true.
fn changing(passer: &Passer, path: &Path, seed: u64) -> Result<()> {
    change(passer, "a growing file", path, |file, round| {
        file.seek(SeekFrom::End(0))?;
        file.write_all(&round.to_le_bytes().repeat(512))
    })?;
    change(passer, "a file that is cut short", path, |file, round| {
        file.set_len(if round.is_multiple_of(2) {
            1
        } else {
            CHANGING_BYTES
        })
    })?;
    change(passer, "a file that is written to", path, |file, round| {
        file.write_all_at(&round.to_le_bytes(), (round * 4093 + seed) % CHANGING_BYTES)
    })?;
    let memory = File::from(memfd_create(c"changing", MFdFlags::empty())?);
    let memory_path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory));
    change(
        passer,
        "memory that is cut short",
        memory_path.as_ref(),
        |file, round| {
            file.set_len(if round.is_multiple_of(2) {
                1
            } else {
                CHANGING_BYTES
            })
        },
    )
}

fn change(
    passer: &Passer,
    what: &'static str,
    path: &Path,
    mut step: impl FnMut(&mut File, u64) -> std::io::Result<()> + Send,
) -> Result<()> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.set_len(CHANGING_BYTES)?;
    let end = AtomicBool::new(false);
    let mut tally = Tally::new(what);
    std::thread::scope(|scope| {
        let changer = scope.spawn(|| {
            let mut round = 0;
            while !end.load(Ordering::Relaxed) {
                // A full disk ends the changes, and nothing else.
                if step(&mut file, round).is_err() {
                    return;
                }
                round += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        for _ in 0..ROUNDS {
            if let Ok(file) = File::open(path) {
                tally.count(passer.pass(file.as_fd(), ManifestKind::File));
            }
        }
        end.store(true, Ordering::Relaxed);
        drop(changer.join());
    });
    Ok(tally.say()?)
}

/// Small files, each with an object, a manifest and its own identity.
fn many(passer: &Passer, path: &Path, files: u64, seed: u64) -> Result<()> {
    let mut tally = Tally::new("many files");
    for index in 0..files {
        std::fs::write(path, [seed, index].map(u64::to_le_bytes).concat())?;
        tally.count(passer.pass(File::open(path)?.as_fd(), ManifestKind::File));
        std::fs::remove_file(path)?;
    }
    Ok(tally.say()?)
}
