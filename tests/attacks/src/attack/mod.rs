//! The attacks on the daemon.

mod broken;
mod connections;
mod descriptors;
mod frames;
mod fuse;
mod headers;
mod hoard;
mod http;
mod identities;
mod inodes;
mod leases;
mod lingering;
mod locks;
mod metadata;
mod python;
mod records;
mod sidecar;
mod slow;
mod unread;

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tetris_agent::ManifestKind;

use crate::client;
use crate::line::{End, Line, Tally};
use crate::rights::Rights;

/// An attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// Sockets with a full send buffer and SO_LINGER, whose last close waits
    Lingering,
    /// Files of metadata alone, and many identities of one content
    Metadata,
    /// Derived records without number, whose tables have as many sources or objects as is allowed
    Records,
    /// Files with headers of the largest size that the daemon reads, and above it
    Headers,
    /// Clients that do not read their answers, and ones that send a byte each second
    Unread,
    /// 250,000 locks on its own files
    Locks,
    /// POSIX and OFD read locks on every object of its store
    PosixLocks,
    /// Leases on every file of its store that it can read
    Leases,
    /// Models that stay mapped, and sparse files
    Hoard,
    /// Tiny files without end, each with an object and its own records
    Inodes,
    /// Files that give a few bytes a second, or none
    Slow,
    /// Files whose reads fail in the middle
    Broken,
    /// Connections of several users that say nothing, or half of a message
    Connections,
    /// A sidecar of other bytes beside each model of another user
    Sidecar,
    /// Files that say they are other ones
    Identities,
    /// Connections and requests without end to all ports
    Http,
    /// Descriptors of every kind
    Descriptors,
    /// Frames that are none
    Frames,
}

/// The pod of an attacker.
#[derive(Debug)]
pub struct Context {
    /// Its volume.
    pub store: PathBuf,
    /// Its own directory.
    pub scratch: PathBuf,
    /// Ports that the daemon serves.
    pub pages: Vec<SocketAddr>,
    /// Another user's directory of models.
    pub models: Option<PathBuf>,
    /// Its rights.
    pub rights: Rights,
    /// Its end.
    pub end: End,
}

/// Files that only root can make, and that are made before the attacker gives up its rights.
#[derive(Debug)]
pub enum Prepared {
    /// None.
    Nothing,
    /// Files that are slow, or hang.
    Slow(slow::Files),
    /// Files whose reads fail.
    Broken(broken::Folder),
    /// Images of one identity; none where they cannot be mounted.
    Images(Option<identities::Images>),
}

impl Attack {
    /// Name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Makes the files that only root can make: they stand for volumes of a pod.
    ///
    /// # Errors
    /// When they cannot be made here.
    pub fn prepare(self, scratch: &Path) -> Result<Prepared> {
        Ok(match self {
            Self::Slow => Prepared::Slow(slow::Files::make(scratch)?),
            Self::Broken => Prepared::Broken(broken::Folder::mount(scratch)?),
            Self::Identities => Prepared::Images(identities::Images::make(scratch).ok()),
            _ => Prepared::Nothing,
        })
    }

    /// Returns true if the attack needs the rights of the node, because it stands for volumes of a pod.
    pub fn keeps_rights(self) -> bool {
        self == Self::Identities
    }

    /// Repeats the attack until the end.
    ///
    /// # Errors
    /// When it cannot be made. A refusal of the daemon is a result, not an error.
    pub fn run(self, context: &Context, prepared: Prepared) -> Result<()> {
        raise_limit()?;
        let rounds = Rounds {
            attack: self.name(),
            context,
        };
        match (self, prepared) {
            (Self::Slow, Prepared::Slow(files)) => slow::run(&rounds, files),
            (Self::Broken, Prepared::Broken(folder)) => broken::run(&rounds, &folder),
            (Self::Lingering, _) => lingering::run(&rounds),
            (Self::Metadata, _) => metadata::run(&rounds),
            (Self::Records, _) => records::run(&rounds),
            (Self::Headers, _) => headers::run(&rounds),
            (Self::Unread, _) => unread::run(&rounds),
            (Self::Locks, _) => locks::elsewhere(&rounds),
            (Self::PosixLocks, _) => locks::on_objects(&rounds),
            (Self::Leases, _) => leases::run(&rounds),
            (Self::Hoard, _) => hoard::run(&rounds),
            (Self::Inodes, _) => inodes::run(&rounds),
            (Self::Connections, _) => connections::run(&rounds),
            (Self::Sidecar, _) => sidecar::run(&rounds),
            (Self::Identities, Prepared::Images(images)) => {
                identities::run_rounds(&rounds, images.as_ref())
            }
            (Self::Http, _) => http::run(&rounds),
            (Self::Descriptors, _) => descriptors::run(&rounds),
            (Self::Frames, _) => frames::run(&rounds),
            (Self::Slow | Self::Broken | Self::Identities, _) => {
                anyhow::bail!("its files were not prepared")
            }
        }
    }
}

/// The rounds of an attack.
struct Rounds<'a> {
    attack: String,
    context: &'a Context,
}

impl Rounds<'_> {
    /// Makes a round after each pause until the end, and reports the result of each. Something of the last round is kept
    /// until the next one, so that the attack stays in force.
    fn repeat<T>(
        &self,
        pause: Duration,
        mut round: impl FnMut(u64, &mut Tally) -> Result<T>,
    ) -> Result<()> {
        let mut tally = Tally::default();
        for number in 1.. {
            let kept = round(number, &mut tally)?;
            Line::Round {
                attack: self.attack.clone(),
                round: number,
                counts: tally.take(),
            }
            .say()?;
            if self.context.end.wait(pause) {
                break;
            }
            drop(kept);
        }
        Ok(())
    }

    fn wrong(&self, what: String) -> Result<()> {
        let attack = self.attack.clone();
        Ok(Line::Wrong { attack, what }.say()?)
    }

    /// A path in the pod's own directory.
    fn scratch(&self, name: &str) -> PathBuf {
        self.context.scratch.join(name)
    }

    /// Passes the file at `path` as a model.
    fn pass(&self, path: &Path) -> Result<String> {
        let file = std::fs::File::open(path)?;
        let kind = ManifestKind::Safetensors;
        Ok(client::pass(&self.context.store, file.as_fd(), kind))
    }
}

/// Gives the process as many descriptors as it may have.
pub(crate) fn raise_limit() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}
