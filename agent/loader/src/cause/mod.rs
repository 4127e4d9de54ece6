//! Causes of private memory, and of stores that cannot be used or work worse than they could.

mod remedy;

use std::io::ErrorKind;
use std::path::Path;

use nix::libc;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use tetris_store_layout::{IoError, MapError, PublishError, Store, StoreError};

pub use remedy::Words;

/// The cause of private memory, or of a store that cannot be used.
///
/// A report has it beside the reason, which is a sentence with details. [`PrivateCause::remedy`]
/// gives the command that removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrivateCause {
    /// The program asked for no store.
    NotUsed,
    /// There is no such directory.
    NoStore,
    /// The directory holds no store.
    NotAStore,
    /// The store is a default one and belongs to another user than this one and root.
    NotTrusted {
        /// User id of its owner.
        owner: u32,
    },
    /// This user may not read the store.
    NoPermission,
    /// Another version made the store.
    OtherVersion {
        /// The store's format version.
        found: u32,
    },
    /// The store's header is damaged.
    DamagedStore,
    /// The store cannot be opened for another reason.
    Unusable,
    /// The store is mounted read-only, and no daemon publishes for this process.
    ReadOnly,
    /// The store belongs to another user, and no daemon publishes for this one.
    NotMine {
        /// User id of its owner.
        owner: u32,
    },
    /// The store has a daemon's socket, and no one listens there.
    NoDaemon,
    /// The daemon gives no answer.
    DaemonSilent,
    /// The daemon does not publish the file.
    DaemonRefused,
    /// Mapped objects fill the store.
    Full {
        /// Size in bytes with which the store would hold the model as well.
        needed: u64,
    },
    /// The daemon's policy keeps the objects that fill the store.
    Kept {
        /// Size in bytes with which the store would hold the model as well.
        needed: u64,
    },
    /// The node daemon's limit of the store does not allow the model beside what is mapped or
    /// declared warm there.
    OverLimit,
    /// The store could not hold the model if it were empty.
    TooSmall {
        /// Size in bytes with which the store would hold the model.
        needed: u64,
    },
    /// An object of the store is damaged.
    DamagedObject,
    /// A process holds a lease on a file of the store, which cannot be opened meanwhile.
    Leased,
    /// The process has as many mappings as it may have.
    MappingLimit,
    /// The file is so small that sharing it costs more than it saves.
    SmallFile,
    /// The file is so new that it cannot be recognized again, and not large.
    NewFile,
    /// The store has pages of 4 KiB. Memory is shared even so, but slower to map.
    SmallPages,
    /// The store did not take the bytes for another reason.
    Failed,
}

impl PrivateCause {
    /// One of each cause, with values made up.
    pub const ALL: [Self; 24] = [
        Self::NotUsed,
        Self::NoStore,
        Self::NotAStore,
        Self::NotTrusted { owner: 1000 },
        Self::NoPermission,
        Self::OtherVersion { found: 2 },
        Self::DamagedStore,
        Self::Unusable,
        Self::ReadOnly,
        Self::NotMine { owner: 0 },
        Self::NoDaemon,
        Self::DaemonSilent,
        Self::DaemonRefused,
        Self::Full { needed: 8 << 30 },
        Self::Kept { needed: 8 << 30 },
        Self::OverLimit,
        Self::TooSmall { needed: 8 << 30 },
        Self::DamagedObject,
        Self::Leased,
        Self::MappingLimit,
        Self::SmallFile,
        Self::NewFile,
        Self::SmallPages,
        Self::Failed,
    ];

    /// Its name in JSON and in Python.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotUsed => "not-used",
            Self::NoStore => "no-store",
            Self::NotAStore => "not-a-store",
            Self::NotTrusted { .. } => "not-trusted",
            Self::NoPermission => "no-permission",
            Self::OtherVersion { .. } => "other-version",
            Self::DamagedStore => "damaged-store",
            Self::Unusable => "unusable",
            Self::ReadOnly => "read-only",
            Self::NotMine { .. } => "not-mine",
            Self::NoDaemon => "no-daemon",
            Self::DaemonSilent => "daemon-silent",
            Self::DaemonRefused => "daemon-refused",
            Self::Full { .. } => "full",
            Self::Kept { .. } => "kept",
            Self::OverLimit => "over-limit",
            Self::TooSmall { .. } => "too-small",
            Self::DamagedObject => "damaged-object",
            Self::Leased => "leased",
            Self::MappingLimit => "mapping-limit",
            Self::SmallFile => "small-file",
            Self::NewFile => "new-file",
            Self::SmallPages => "small-pages",
            Self::Failed => "failed",
        }
    }

    /// The cause as a sentence, without details.
    pub fn sentence(self) -> String {
        let text = match self {
            Self::NotUsed => "no tensor store is used",
            Self::NoStore => "there is no tensor store",
            Self::NotAStore => "the directory holds no tensor store",
            Self::NotTrusted { owner } => {
                return format!(
                    "the tensor store belongs to user {owner}, who can put anything into it"
                );
            }
            Self::NoPermission => "this user may not read the tensor store",
            Self::OtherVersion { found } => {
                return format!(
                    "the tensor store has format version {found}, which this build does not read"
                );
            }
            Self::DamagedStore => "the header of the tensor store is damaged",
            Self::Unusable => "the tensor store cannot be opened",
            Self::ReadOnly => {
                "the tensor store is mounted read-only, and no node daemon publishes for this process"
            }
            Self::NotMine { owner } => {
                return format!(
                    "the tensor store belongs to user {owner}, and no node daemon publishes for this user"
                );
            }
            Self::NoDaemon => "the node daemon of the tensor store does not run",
            Self::DaemonSilent => "the node daemon gives no answer",
            Self::DaemonRefused => "the node daemon does not publish the file",
            Self::Full { .. } => "the tensor store is full of objects that processes map",
            Self::Kept { .. } => {
                "the tensor store is full of objects that the node daemon's policy keeps"
            }
            Self::OverLimit => {
                "the tensor store is at the limit that the node daemon has for it, with objects that are mapped or declared warm"
            }
            Self::TooSmall { .. } => "the model is larger than the tensor store",
            Self::DamagedObject => "an object of the tensor store is damaged",
            Self::Leased => "a process holds a lease on a file of the tensor store",
            Self::MappingLimit => "this process has as many mappings as it may have",
            Self::SmallFile => "the file is so small that sharing it costs more than it saves",
            Self::NewFile => {
                "the file was written a moment ago, and cannot be recognized again yet"
            }
            Self::SmallPages => "the tensor store has pages of 4 KiB, not of 2 MiB",
            Self::Failed => "the tensor store did not take the bytes",
        };
        text.to_owned()
    }

    /// Returns true if the memory is private by choice, and not because the store could not be used.
    pub const fn is_choice(self) -> bool {
        matches!(self, Self::NotUsed | Self::SmallFile | Self::NewFile)
    }

    /// The cause for which a store could not be opened.
    pub fn of_open(error: &StoreError) -> Self {
        match error {
            StoreError::NotAStore { .. } => Self::NotAStore,
            StoreError::Version { found, .. } => Self::OtherVersion { found: *found },
            StoreError::Header { .. } => Self::DamagedStore,
            StoreError::Io(error) if error.is_leased() => Self::Leased,
            StoreError::Io(error) => match error.source.kind() {
                // A folder of a store that is there is another matter.
                ErrorKind::NotFound if !error.path.parent().is_some_and(Path::exists) => {
                    Self::NoStore
                }
                ErrorKind::PermissionDenied => Self::NoPermission,
                _ => Self::Unusable,
            },
            _ => Self::Unusable,
        }
    }

    /// The cause for which a store did not take bytes. The sizes that are `needed` are not known yet:
    /// see [`PrivateCause::with_needed`].
    pub fn of_publish(error: &PublishError, store: &Store) -> Self {
        match error {
            error if error.is_full() => Self::Full { needed: 0 },
            PublishError::ReadOnly { .. } => Self::of_read_only(store),
            PublishError::Map(MapError::Damaged { .. }) => Self::DamagedObject,
            PublishError::Map(error) if error.is_leased() => Self::Leased,
            PublishError::Map(MapError::Io(error)) if is_map_limit(error) => Self::MappingLimit,
            _ => Self::Failed,
        }
    }

    /// The cause for which this process cannot publish in `store`, which it can only read and no daemon
    /// serves.
    pub fn of_read_only(store: &Store) -> Self {
        if store.daemon_socket().exists() {
            return Self::NoDaemon;
        }
        let mounted = statvfs(store.root()).map(|stat| stat.flags());
        let read_only = mounted.is_ok_and(|flags| flags.contains(FsFlags::ST_RDONLY));
        match store.owner() {
            Ok(owner) if !read_only && owner != geteuid().as_raw() => Self::NotMine { owner },
            _ => Self::ReadOnly,
        }
    }

    /// The cause with the size that the store would need: of one of `capacity` bytes, which lacked room
    /// for `missing` bytes of a model of `total` bytes.
    #[must_use]
    pub fn with_needed(self, capacity: u64, missing: u64, total: u64) -> Self {
        // Records take pages, and a tmpfs rounds each object up to its pages.
        let room = missing.saturating_add(missing / 32).saturating_add(1 << 20);
        let needed = capacity
            .saturating_add(room)
            .checked_next_multiple_of(1 << 20);
        let needed = needed.unwrap_or(u64::MAX);
        match self {
            Self::Full { .. } | Self::Kept { .. } if capacity > 0 && total > capacity => {
                Self::TooSmall { needed }
            }
            Self::Full { .. } => Self::Full { needed },
            Self::Kept { .. } => Self::Kept { needed },
            Self::TooSmall { .. } => Self::TooSmall { needed },
            other => other,
        }
    }
}

/// Returns true for the error of a process that may have no more mappings.
pub(crate) fn is_map_limit(error: &IoError) -> bool {
    error.source.raw_os_error() == Some(libc::ENOMEM)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_kebab_case_and_unique() {
        let codes: BTreeSet<_> = PrivateCause::ALL.iter().map(|cause| cause.code()).collect();
        assert_eq!(codes.len(), PrivateCause::ALL.len());
        let kebab = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(
            codes.iter().all(|code| code.bytes().all(kebab)),
            "{codes:?}"
        );
    }

    #[test]
    fn errors_of_publishing_have_causes_of_their_own() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store =
            Store::create(dir.path(), &tetris_store_layout::CreateOptions::default()).unwrap();
        let io = |errno| IoError::new("map", "/x", std::io::Error::from_raw_os_error(errno));
        let damaged = MapError::Damaged {
            path: "/x".into(),
            expected: 1,
            found: "a directory".to_owned(),
        };
        let read_only = PublishError::ReadOnly { path: "/x".into() };
        let causes = [
            (io(libc::ENOSPC).into(), "full"),
            (io(libc::EIO).into(), "failed"),
            (PublishError::Map(io(libc::ENOMEM).into()), "mapping-limit"),
            (PublishError::Map(damaged), "damaged-object"),
            (PublishError::Map(io(libc::EAGAIN).into()), "leased"),
            // This very user owns it.
            (read_only, "read-only"),
        ];
        for (error, code) in causes {
            let cause = PrivateCause::of_publish(&error, &store);
            assert_eq!(cause.code(), code, "{error}");
        }
    }

    #[test]
    fn a_model_larger_than_the_store_is_told_from_a_full_store() {
        let full = PrivateCause::Full { needed: 0 };
        let of = |capacity, missing, total| full.with_needed(capacity, missing, total);
        assert!(
            matches!(of(64 << 20, 8 << 20, 9 << 20), PrivateCause::Full { needed } if needed > 72 << 20)
        );
        assert!(
            matches!(of(4 << 20, 8 << 20, 9 << 20), PrivateCause::TooSmall { needed } if needed > 12 << 20)
        );
        assert_eq!(
            PrivateCause::NoStore.with_needed(1, 1, 1),
            PrivateCause::NoStore
        );
    }
}
