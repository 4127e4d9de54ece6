//! The store that a process uses when no one passes one: the rule of every way into Tetris.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{AccessFlags, access, geteuid};
use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::{Store, StoreError, is_idmapped, is_mounted_by_root};
use thiserror::Error;

/// Directory at which root mounts a store.
pub const MOUNT_POINT: &str = "/run/tetris/store";
/// Directory of a store for other users.
pub const SHM_DIR: &str = "/dev/shm/tetris";
/// Names the store's directory, to the command `tetris` and to programs that load models.
pub const STORE_ENV: &str = "TETRIS_STORE";

/// Longest wait for a daemon to take a connection. A daemon that is stuck does not publish.
const DAEMON_PATIENCE: Duration = Duration::from_secs(1);

/// A store's directory as the user named it, or as it is by default.
///
/// The default is the store at [`MOUNT_POINT`] if this process may write to it, or if the node daemon
/// listens there, which publishes for others. Else it is this user's own store at [`SHM_DIR`], if there
/// is one, then any store at [`MOUNT_POINT`], and then [`SHM_DIR`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLocation {
    /// The directory.
    pub dir: PathBuf,
    /// True if the user named it.
    pub named: bool,
    /// The reason that it is this directory.
    pub choice: StoreChoice,
}

/// The reason that a store is used and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreChoice {
    /// The user named it.
    Named,
    /// It is the mounted store, and this process may write to it.
    MountedWritable,
    /// It is the mounted store, and the node daemon publishes for this process.
    MountedPublished,
    /// It is the mounted store, which this process may only read; this user has no other.
    MountedReadable,
    /// It is this user's own store; the mounted one may only be read, and no daemon listens there.
    OwnWritable,
    /// No store is mounted.
    NoneMounted,
}

impl StoreChoice {
    /// Its name in JSON.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::MountedWritable => "mounted-writable",
            Self::MountedPublished => "mounted-published",
            Self::MountedReadable => "mounted-readable",
            Self::OwnWritable => "own-writable",
            Self::NoneMounted => "none-mounted",
        }
    }
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => write!(f, "{STORE_ENV}, an option or the program names it"),
            Self::MountedWritable => {
                write!(f, "it is mounted, and this process may write to it")
            }
            Self::MountedPublished => {
                write!(
                    f,
                    "it is mounted, and the node daemon publishes for this process"
                )
            }
            Self::MountedReadable => write!(
                f,
                "it is mounted, and this user has no store of their own at {SHM_DIR}"
            ),
            Self::OwnWritable => write!(
                f,
                "this user owns it, and may only read {MOUNT_POINT}, where no node daemon listens"
            ),
            Self::NoneMounted => write!(f, "no store is mounted at {MOUNT_POINT}"),
        }
    }
}

/// The reason that the store of a location cannot be used. [`StoreLocationError::cause`] has a remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreLocationError {
    /// There is no such directory.
    #[error("there is no tensor store at `{}`", dir.display())]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// No one named this store, and it belongs to a stranger.
    #[error("the tensor store at `{}` belongs to user {owner}, who can put anything into it", dir.display())]
    Untrusted {
        /// The directory.
        dir: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// It cannot be opened.
    #[error("{}", without_remedy(source))]
    Store {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        source: Box<StoreError>,
    },
}

/// The error in words. That of a lease has the next step in it, which is in [`StoreLocationError::remedy`].
fn without_remedy(source: &StoreError) -> String {
    match source {
        StoreError::Io(error) if error.is_leased() => {
            let path = error.path.display();
            format!(
                "cannot {} `{path}`: a process holds a lease on it",
                error.action
            )
        }
        source => source.to_string(),
    }
}

impl StoreLocationError {
    /// The cause, which has a remedy.
    pub fn cause(&self) -> PrivateCause {
        match self {
            Self::Missing { .. } => PrivateCause::NoStore,
            Self::Untrusted { owner, .. } => PrivateCause::NotTrusted { owner: *owner },
            Self::Store { source, .. } => PrivateCause::of_open(source),
        }
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        match self {
            Self::Missing { dir } | Self::Untrusted { dir, .. } | Self::Store { dir, .. } => dir,
        }
    }

    /// The next step, with a command to run.
    pub fn remedy(&self, words: Words) -> String {
        self.cause().remedy(words, self.dir())
    }
}

impl StoreLocation {
    /// The directory `named`, or else the default. An empty name counts as none: that is how many
    /// tools unset a variable.
    pub fn new(named: Option<OsString>) -> Self {
        match named.filter(|name| !name.is_empty()) {
            Some(name) => Self::named(name),
            None => Self::of_candidates(
                &Candidate::in_dir(MOUNT_POINT.as_ref()),
                &Candidate::in_dir(SHM_DIR.as_ref()),
            ),
        }
    }

    /// The directory `dir`, which the user named.
    pub fn named(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            named: true,
            choice: StoreChoice::Named,
        }
    }

    /// The directory that [`STORE_ENV`] names, or else the default.
    pub fn from_env() -> Self {
        Self::new(std::env::var_os(STORE_ENV))
    }

    /// The default of a mounted store and one on /dev/shm.
    fn of_candidates(mounted: &Candidate<'_>, shm: &Candidate<'_>) -> Self {
        let choice = if !mounted.is_store() {
            StoreChoice::NoneMounted
        } else if mounted.is_writable() {
            StoreChoice::MountedWritable
        } else if !shm.is_store() || !shm.is_own() || !shm.is_writable() {
            StoreChoice::MountedReadable
        } else if mounted.has_daemon() {
            StoreChoice::MountedPublished
        } else {
            StoreChoice::OwnWritable
        };
        let chosen = match choice {
            StoreChoice::OwnWritable | StoreChoice::NoneMounted => shm,
            _ => mounted,
        };
        Self {
            dir: chosen.dir.to_owned(),
            named: false,
            choice,
        }
    }

    /// Opens the store. Its owner must be this user or root, or root must have mounted it, unless the user
    /// named the directory.
    ///
    /// # Errors
    /// The reason that it cannot be used.
    pub fn open(&self) -> Result<Store, StoreLocationError> {
        if !self.dir.exists() {
            let dir = self.dir.clone();
            return Err(StoreLocationError::Missing { dir });
        }
        self.require_trusted()?;
        Store::open(&self.dir).map_err(|source| StoreLocationError::Store {
            dir: self.dir.clone(),
            source: source.into(),
        })
    }

    /// Anybody may make a directory in /dev/shm, and a store's owner decides its content. So a
    /// stranger's store is used only by its name. On a node, the store belongs to the daemon's user: root
    /// mounted it, by an idmapped mount that hides the owner where the kernel has those.
    fn require_trusted(&self) -> Result<(), StoreLocationError> {
        let owner = std::fs::metadata(&self.dir).map_or(0, |metadata| metadata.uid());
        if self.named || owner == 0 || owner == geteuid().as_raw() {
            return Ok(());
        }
        if is_mounted_by_root(&self.dir) || File::open(&self.dir).is_ok_and(|dir| is_idmapped(&dir))
        {
            return Ok(());
        }
        Err(StoreLocationError::Untrusted {
            dir: self.dir.clone(),
            owner,
        })
    }
}

/// A directory that may be the default store.
struct Candidate<'d> {
    dir: &'d Path,
}

impl<'d> Candidate<'d> {
    fn in_dir(dir: &'d Path) -> Self {
        Self { dir }
    }

    fn is_store(&self) -> bool {
        self.dir.join("store").exists()
    }

    /// Returns true if this process may publish, as far as the directory shows.
    fn is_writable(&self) -> bool {
        Store::open(self.dir).map_or_else(
            |_| access(self.dir, AccessFlags::W_OK).is_ok(),
            |store| store.is_writable(),
        )
    }

    fn is_own(&self) -> bool {
        let owner = std::fs::metadata(self.dir).map(|metadata| metadata.uid());
        owner.is_ok_and(|owner| owner == geteuid().as_raw())
    }

    /// Returns true if a daemon listens.
    fn has_daemon(&self) -> bool {
        let deadline = Instant::now() + DAEMON_PATIENCE;
        Store::open(self.dir)
            .is_ok_and(|store| tetris_wire::connect(&store.daemon_socket(), deadline).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::IoError;

    use super::*;

    #[test]
    fn an_empty_name_counts_as_none() {
        assert!(!StoreLocation::new(Some(OsString::new())).named);
        assert!(!StoreLocation::new(None).named);
        let named = StoreLocation::new(Some("/x".into()));
        assert_eq!((named.dir.as_path(), named.named), (Path::new("/x"), true));
    }

    fn of(mounted: &Path, shm: &Path) -> (PathBuf, StoreChoice) {
        let location =
            StoreLocation::of_candidates(&Candidate::in_dir(mounted), &Candidate::in_dir(shm));
        assert!(!location.named);
        (location.dir, location.choice)
    }

    #[test]
    fn a_mounted_store_that_can_be_written_is_the_default_and_else_the_directory() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let (mounted, shm) = (dir.path().join("mounted"), dir.path().join("shm"));
        assert_eq!(of(&mounted, &shm), (shm.clone(), StoreChoice::NoneMounted));
        Store::create(&shm, &tetris_store_layout::CreateOptions::default()).unwrap();
        assert_eq!(of(&mounted, &shm), (shm.clone(), StoreChoice::NoneMounted));
        Store::create(&mounted, &tetris_store_layout::CreateOptions::default()).unwrap();
        let writable = (mounted.clone(), StoreChoice::MountedWritable);
        assert_eq!(of(&mounted, &shm), writable);
    }

    #[test]
    fn a_lease_is_told_with_one_remedy() {
        let blocked = std::io::ErrorKind::WouldBlock;
        let source = IoError::new("open", "/x/store", std::io::Error::new(blocked, "a step"));
        let error = StoreLocationError::Store {
            dir: "/x".into(),
            source: Box::new(source.into()),
        };
        let text = error.to_string();
        assert_eq!(
            text,
            "cannot open `/x/store`: a process holds a lease on it"
        );
        let remedy = error.remedy(Words::CommandLine);
        assert!(remedy.contains("`grep LEASE /proc/locks`"), "{remedy}");
    }

    #[test]
    fn a_stranger_s_store_must_be_named() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: needs root, to make a directory that belongs to somebody else");
            return;
        }
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
        let mut place = StoreLocation::named(dir.path());
        place.named = false;
        let refused = place.open().unwrap_err();
        assert!(matches!(
            refused,
            StoreLocationError::Untrusted { owner: 65_534, .. }
        ));
        place.named = true;
        let refused = place.open().unwrap_err().to_string();
        assert!(refused.contains("not a tensor store"), "{refused}");
        std::os::unix::fs::chown(dir.path(), Some(0), None).unwrap();
    }

    #[test]
    fn a_store_that_root_mounted_is_trusted_with_any_owner() {
        use nix::mount::{MntFlags, MsFlags, mount, umount2};
        use std::os::unix::fs::{PermissionsExt, chown};

        let parent = tempfile::tempdir_in("/dev/shm").unwrap();
        let dir = parent.path().join("store");
        std::fs::create_dir(&dir).unwrap();
        let none = None::<&str>;
        if let Err(error) = mount(none, &dir, Some("tmpfs"), MsFlags::empty(), none) {
            eprintln!("SKIPPED: cannot mount a tmpfs: {error}");
            return;
        }
        let mut place = StoreLocation::named(&dir);
        place.named = false;
        let opened = || {
            Store::create(&dir, &tetris_store_layout::CreateOptions::default()).unwrap();
            chown(&dir, Some(65_534), None).unwrap();
            place.open().map(drop)
        };
        let by_root = opened();
        // Others may mount where they may write.
        std::fs::set_permissions(parent.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let by_anybody = opened();
        std::fs::set_permissions(parent.path(), PermissionsExt::from_mode(0o755)).unwrap();
        umount2(&dir, MntFlags::MNT_DETACH).unwrap();
        let not_mounted = opened();
        assert!(by_root.is_ok(), "{by_root:?}");
        for refused in [by_anybody, not_mounted] {
            assert!(
                matches!(
                    refused,
                    Err(StoreLocationError::Untrusted { owner: 65_534, .. })
                ),
                "{refused:?}"
            );
        }
    }
}
