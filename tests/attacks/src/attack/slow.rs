//! Files that give a few bytes a second, or none: of a volume in user space, and a local one.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::fcntl::AT_FDCWD;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use tetris_agent::ManifestKind;
use tetris_wire::daemon::Message;

use super::{Rounds, fuse};
use crate::client::Raw;
use crate::model;

/// Files of each kind passed in a round.
const PASSED: u64 = 6;

/// Such files.
#[derive(Debug)]
pub struct Files {
    /// Directory of the file system in user space.
    user_space: Option<PathBuf>,
    /// Local files whose readers wait: the kernel asks for permission, and no one answers. They stand for a local
    /// file system that does not answer.
    local: Option<(Vec<PathBuf>, Fanotify)>,
}

impl Files {
    /// Makes what can be made here, in a mount namespace of this process. Needs root.
    ///
    /// # Errors
    /// When none can be made.
    pub fn make(scratch: &Path) -> Result<Self> {
        let dir = fuse::folder(scratch)?;
        let user_space = fuse::serve(&dir);
        let local = local(scratch);
        if let (Err(user_space), Err(local)) = (&user_space, &local) {
            bail!("{user_space:#}; {local:#}");
        }
        Ok(Self {
            user_space: user_space.is_ok().then_some(dir),
            local: local.ok(),
        })
    }
}

fn local(scratch: &Path) -> Result<(Vec<PathBuf>, Fanotify)> {
    let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
    let asks = Fanotify::init(flags, EventFFlags::O_RDONLY).context("fanotify")?;
    let mut paths = Vec::new();
    for number in 0..PASSED {
        let path = scratch.join(format!("local-{number}"));
        model::write(&path, number, 1 << 20)?;
        let mask = MaskFlags::FAN_ACCESS_PERM;
        asks.mark(MarkFlags::FAN_MARK_ADD, mask, AT_FDCWD, Some(&path))
            .context("fanotify")?;
        paths.push(path);
    }
    Ok((paths, asks))
}

pub(super) fn run(rounds: &Rounds<'_>, files: Files) -> Result<()> {
    // Dropped at the end: until then no one answers.
    let (locals, _asks) = files.local.unzip();
    rounds.repeat(Duration::from_secs(3), |round, tally| {
        let mut requests = Vec::new();
        let mut pass = |path: &Path, kind: &str| -> Result<()> {
            let file = File::open(path).with_context(|| path.display().to_string())?;
            let Ok(mut raw) = Raw::greeted(&rounds.context.store) else {
                tally.count(format!("{kind}-not-connected"));
                return Ok(());
            };
            raw.ask_to_ingest(ManifestKind::Safetensors, &[file.as_fd()]);
            // The first answer: it waits, it is read, or it is refused.
            tally.count(match raw.receive() {
                Ok(Message::IngestWaiting { .. }) => format!("{kind}-waits"),
                Ok(Message::IngestProgress { .. }) => format!("{kind}-is-read"),
                Ok(Message::IngestRefused(refusal)) => {
                    format!("{kind}-refused-{}", refusal.reason.0)
                }
                Ok(_) => format!("{kind}-answered"),
                Err(_) => format!("{kind}-no-answer"),
            });
            requests.push(raw);
            Ok(())
        };
        for number in 0..PASSED {
            if let Some(dir) = &files.user_space {
                let of_round = (round * PASSED + number) % fuse::FILES;
                pass(&dir.join(fuse::slow(of_round)), "slow")?;
                pass(&dir.join(fuse::hung(of_round)), "hung")?;
            }
            if let Some(path) = locals.iter().flatten().nth(number as usize) {
                pass(path, "local")?;
            }
        }
        Ok(requests)
    })
}
