//! Decision about an observed path: create, adopt, change or refuse. Purely.

use std::fmt;

use thiserror::Error;

use super::config::{HugePages, MountConfig};
use super::mountinfo::MountEntry;
use super::observed::{ObservedPath, TmpfsSize};

/// An action, and notes for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// Differences from the configuration that stay.
    pub notes: Vec<Note>,
}

/// Action at the mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is there.
    Adopt,
    /// Mount it.
    Create,
    /// Change the differing options while it is in use.
    Remount(Changes),
}

/// Changes of a mounted tmpfs; `None` leaves a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// New size in bytes.
    pub size_bytes: Option<u64>,
    /// New number of files.
    pub inodes: Option<u64>,
    /// Huge pages from now on.
    pub huge: Option<HugePages>,
}

/// Something that is not as configured, though the mount can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The option.
    pub option: &'static str,
    /// The difference.
    pub what: String,
}

impl Note {
    pub(super) fn new(option: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { option, what }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`: {}", self.option, self.what)
    }
}

/// The reason for doing nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It leads elsewhere, or nothing can be mounted on it.
    #[error("it is {what}, expected a directory or nothing; remove it or set another `mount.path`")]
    NotADirectory {
        /// Kind of the file.
        what: &'static str,
    },
    /// A mount would hide the contents.
    #[error(
        "the directory is not empty, and a mount would hide its contents; empty it or set another `mount.path`"
    )]
    NotEmpty,
    /// Something else is mounted there.
    #[error(
        "{found} is mounted there, expected a whole tmpfs that can be written; unmount it or set another `mount.path`"
    )]
    Foreign {
        /// The found file system.
        found: String,
    },
    /// The tmpfs can grow without end, which the kernel does not let us change.
    #[error(
        "the tmpfs has no size limit and can be given none while mounted; unmount it or set another `mount.path`"
    )]
    Unlimited,
    /// It holds more than it should.
    #[error(
        "{used} {unit} are in use, so it cannot shrink from {found} to {wanted}; free some, or set at least {used}"
    )]
    TooFull {
        /// Unit of the amounts.
        unit: &'static str,
        /// Used amount.
        used: u64,
        /// Limit that the tmpfs has.
        found: u64,
        /// Limit of the configuration.
        wanted: u64,
    },
}

/// Decides how `found` becomes the mount that `config` describes. `selinux`: true if SELinux is on.
pub fn decide(
    found: &ObservedPath,
    config: &MountConfig,
    selinux: bool,
) -> Result<Decision, Refusal> {
    match found {
        ObservedPath::Missing | ObservedPath::Directory { empty: true } => Ok(Decision {
            action: Action::Create,
            notes: Vec::new(),
        }),
        ObservedPath::Directory { empty: false } => Err(Refusal::NotEmpty),
        ObservedPath::NotADirectory { what } => Err(Refusal::NotADirectory { what }),
        ObservedPath::Mounted { entry, room } => {
            refuse_foreign(entry)?;
            let changes = changes(entry, *room, config)?;
            let action = if changes == Changes::default() {
                Action::Adopt
            } else {
                Action::Remount(changes)
            };
            let notes = differences(entry, *room, config, selinux);
            Ok(Decision { action, notes })
        }
    }
}

/// Refuses a mount that is no whole tmpfs that can be written.
pub(super) fn refuse_foreign(entry: &MountEntry) -> Result<(), Refusal> {
    let found = if entry.fs_type != "tmpfs" {
        format!("a file system of type {}", entry.fs_type)
    } else if entry.root.as_os_str() != "/" {
        format!("directory `{}` of a tmpfs", entry.root.display())
    } else if entry.is_read_only() || entry.super_option("ro").is_some() {
        "a read-only tmpfs".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::Foreign { found })
}

fn changes(entry: &MountEntry, room: TmpfsSize, config: &MountConfig) -> Result<Changes, Refusal> {
    if room.bytes == 0 {
        return Err(Refusal::Unlimited);
    }
    let size = config
        .size_bytes
        .checked_next_multiple_of(room.block.max(1))
        .unwrap_or(config.size_bytes);
    let huge = entry.super_option("huge").unwrap_or("never");
    Ok(Changes {
        size_bytes: resized("bytes", room.bytes, room.bytes_used, size)?,
        inodes: match room.inodes {
            // Without a limit, and none can be set: noted.
            0 => None,
            found => resized("inodes", found, room.inodes_used, config.inodes)?,
        },
        huge: (huge != config.huge.as_str()).then_some(config.huge),
    })
}

fn resized(unit: &'static str, found: u64, used: u64, wanted: u64) -> Result<Option<u64>, Refusal> {
    if wanted < used {
        return Err(Refusal::TooFull {
            unit,
            used,
            found,
            wanted,
        });
    }
    Ok((wanted != found).then_some(wanted))
}

/// Differences that cannot be changed while it is mounted.
fn differences(
    entry: &MountEntry,
    room: TmpfsSize,
    config: &MountConfig,
    selinux: bool,
) -> Vec<Note> {
    let mut notes = Vec::new();
    if config.noswap != entry.super_option("noswap").is_some() {
        let found = if config.noswap { "off" } else { "on" };
        let what = format!("is {found}, and cannot be changed while mounted");
        notes.push(Note::new("noswap", what));
    }
    if room.inodes == 0 {
        notes.push(Note::new(
            "nr_inodes",
            "has no limit, and can be given none while mounted",
        ));
    }
    for flag in ["nodev", "nosuid", "noexec"] {
        if !entry.has(flag) {
            notes.push(Note::new(
                flag,
                "is not set; pods' mounts have it all the same",
            ));
        }
    }
    let expected = config.selinux_context.as_deref().filter(|_| selinux);
    let found = entry
        .super_option("context")
        .map(|text| text.trim_matches('"'));
    if expected != found {
        let shown = |context: Option<&str>| context.unwrap_or("none").to_owned();
        let (found, expected) = (shown(found), shown(expected));
        let what = format!("is {found}, expected {expected}, and cannot be changed while mounted");
        notes.push(Note::new("context", what));
    }
    notes
}
