//! The tmpfs that the stores lie on: mounted when it is missing, adopted when it is there, unmounted
//! only on request.
//!
//! # Flow
//! [`observe`] the path, [`decide`], act, and observe again.
//!
//! # Guarantees
//! Users of the tmpfs notice nothing: a mount that is there is only ever changed in place, and
//! the mount outlives this process. Two processes that do the same at once make one mount. A mount
//! appears with all its options, or not at all. Stores are made with the rights of their owner, and
//! no link below the mount is followed.
//!
//! # Caveats
//! `noswap`, the SELinux context and an unlimited size cannot be changed while mounted: they are
//! told, or refused. The call needs CAP_SYS_ADMIN and Linux 5.8.

mod config;
mod decide;
mod hand_over;
mod mountinfo;
mod observed;
mod owner;
mod prepare;
mod store_directory;
mod tmpfs;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use tetris_store_layout::Store;
use thiserror::Error;

use crate::store::StoreConfig;

pub use config::{HugePages, INODE_BYTES, MountConfig, MountTable};
use decide::refuse_foreign;
pub use decide::{Action, Changes, Decision, Note, Refusal, decide};
use hand_over::hand_over;
pub use mountinfo::{MountEntry, all_mounts, is_mount_root, is_mounted_elsewhere, mount_of};
pub use observed::{ObservedPath, TmpfsSize, observe};
pub(crate) use owner::with_rights_of;
pub use prepare::prepare;
pub(crate) use store_directory::open_below;
pub use store_directory::{DirectoryError, StoreDirectory, StoreGround};

/// Exists where SELinux is on, in containers too.
const SELINUX: &str = "/sys/fs/selinux/enforce";
/// Another daemon that starts here needs some system calls.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A tmpfs that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensured {
    /// Mount point.
    pub path: PathBuf,
    /// Action taken.
    pub action: Action,
    /// Differences from the configuration.
    pub notes: Vec<Note>,
    /// Its size and use.
    pub room: TmpfsSize,
    /// User that owns the stores.
    pub user: u32,
    /// Number of files given to that user.
    pub handed_over: u64,
}

/// The reason there is no tmpfs, or no store on it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The file system there must not be touched.
    #[error("cannot use `{}` for the stores: {source}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: Refusal,
    },
    /// Another process mounts there, and does not end.
    #[error("another process holds `{}` locked, and did so for {} s; does a second daemon start here?", path.display(), LOCK_WAIT.as_secs())]
    Locked {
        /// The directory above the mount.
        path: PathBuf,
    },
    /// The new mount is not there.
    #[error("mounted a tmpfs at `{}`, and found {found} there; does something else mount there?", path.display())]
    Lost {
        /// The path.
        path: PathBuf,
        /// The found file system.
        found: String,
    },
    /// A store could not be made or opened.
    #[error("store `{name}`: {source}")]
    Store {
        /// Its name.
        name: String,
        /// The reason.
        source: DirectoryError,
    },
    /// A daemon serves a store on it.
    #[error("a daemon serves `{}`; stop it first (`systemctl stop tetris-node`)", path.display())]
    Served {
        /// The store.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Makes sure that the tmpfs of `config` is mounted. Blocks for as long as another process does the
/// same, 10 s at most.
///
/// # Errors
/// [`MountError::Refused`] when something else is there, or it cannot be as small as configured.
pub fn ensure_mount(config: &MountConfig) -> Result<Ensured, MountError> {
    let path = &config.path;
    let parent = path.parent().unwrap_or(Path::new("/"));
    make_dirs(parent).map_err(io_error("create", parent))?;
    let _lock = lock(parent)?;
    let selinux = Path::new(SELINUX).exists();
    let found = observe(path).map_err(io_error("look at", path))?;
    let refused = |source| MountError::Refused {
        path: path.clone(),
        source,
    };
    let Decision { action, mut notes } = decide(&found, config, selinux).map_err(refused)?;
    notes.extend(act(&action, config, selinux)?);
    match observe(path).map_err(io_error("look at", path))? {
        ObservedPath::Mounted { entry, room } if entry.fs_type == "tmpfs" => {
            if !entry.shared {
                let what = "is private: where this process runs in a container, the mount ends with it; its volume needs `mountPropagation: Bidirectional`";
                notes.push(Note::new("propagation", what));
            }
            let handed_over = match (&action, config.user) {
                (Action::Create, _) | (_, 0) => 0,
                (_, user) => hand_over(path, user).map_err(io_error("hand over", path))?,
            };
            Ok(Ensured {
                path: path.clone(),
                action,
                notes,
                room,
                user: config.user,
                handed_over,
            })
        }
        found => Err(MountError::Lost {
            path: path.clone(),
            found: format!("{found:?}"),
        }),
    }
}

fn act(action: &Action, config: &MountConfig, selinux: bool) -> Result<Vec<Note>, MountError> {
    let path = &config.path;
    match action {
        Action::Adopt => Ok(Vec::new()),
        Action::Create => {
            make_dirs(path).map_err(io_error("create", path))?;
            tmpfs::create(config, selinux).map_err(io_error("mount a tmpfs at", path))
        }
        Action::Remount(changes) => {
            tmpfs::change(path, changes).map_err(io_error("change the tmpfs at", path))
        }
    }
}

impl Ensured {
    /// Logs the action and the differences from the configuration.
    pub fn log(&self) {
        let path = self.path.display();
        let (bytes, used_bytes) = (self.room.bytes, self.room.bytes_used);
        let done = match &self.action {
            Action::Create => "tmpfs mounted",
            Action::Adopt => "tmpfs adopted",
            Action::Remount(changes) => {
                tracing::info!(%path, ?changes, "tmpfs changed while in use");
                "tmpfs adopted"
            }
        };
        tracing::info!(%path, bytes, used_bytes, "{done}");
        if self.handed_over > 0 {
            let (user, files) = (self.user, self.handed_over);
            tracing::info!(%path, user, files, "tmpfs handed over to the stores' owner");
        }
        for note in &self.notes {
            tracing::warn!(%path, %note, "the tmpfs is not as configured");
        }
    }

    /// Makes the stores that lie on this mount and are missing; all are tried.
    ///
    /// # Errors
    /// That of the first store that could not be made or opened.
    pub fn create_stores(&self, stores: &[StoreConfig]) -> Result<(), MountError> {
        let ground = StoreGround {
            root: Some(self.path.clone()),
            user: self.user,
        };
        let mut outcome = Ok(());
        for config in stores
            .iter()
            .filter(|store| store.path.starts_with(&self.path))
        {
            if let Err(source) = ground.create_store(&config.path) {
                let name = config.name.clone();
                outcome = outcome.and(Err(MountError::Store { name, source }));
            }
        }
        outcome
    }
}

/// Returns true if a tmpfs is mounted at `path`.
pub fn is_tmpfs_mount(path: &Path) -> io::Result<bool> {
    let observed = observe(path)?;
    Ok(matches!(observed, ObservedPath::Mounted { entry, .. } if entry.fs_type == "tmpfs"))
}

/// Unmounts the tmpfs of `config`, and removes its mount point. Processes keep the objects that they
/// map; their memory is freed with the last mapping. Returns false if nothing is mounted there.
///
/// # Errors
/// [`MountError::Served`] while a daemon serves one of `stores`, [`MountError::Refused`] when
/// something other than a whole tmpfs is mounted there.
pub fn remove_mount(config: &MountConfig, stores: &[StoreConfig]) -> Result<bool, MountError> {
    let path = &config.path;
    let parent = path.parent().unwrap_or(Path::new("/"));
    if !parent.exists() {
        return Ok(false);
    }
    let _lock = lock(parent)?;
    let observed = observe(path).map_err(io_error("look at", path))?;
    let ObservedPath::Mounted { entry, .. } = observed else {
        return Ok(false);
    };
    refuse_foreign(&entry).map_err(|source| MountError::Refused {
        path: path.clone(),
        source,
    })?;
    let mut on_it = stores.iter().filter(|store| store.path.starts_with(path));
    if let Some(store) = on_it.find(|store| is_served(&store.path)) {
        return Err(MountError::Served {
            path: store.path.clone(),
        });
    }
    // Mappings keep a mount busy; detached, it ends with the last of them.
    let detached = unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    detached.map_err(|error| io_error("unmount", path)(error.into()))?;
    match std::fs::remove_dir(path) {
        // Another mount below it, or a file that the tmpfs hid.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        removed => removed.map_err(io_error("remove", path))?,
    }
    Ok(true)
}

/// Returns true if a daemon listens in the store at `root`.
fn is_served(root: &Path) -> bool {
    let socket = Store::open(root).map(|store| store.daemon_socket());
    socket.is_ok_and(|socket| UnixStream::connect(socket).is_ok())
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MountError {
    move |source| MountError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

fn make_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// The directory above the mount, which stays the same one when something is mounted: two that
/// start at once would else mount one tmpfs over the other.
fn lock(parent: &Path) -> Result<File, MountError> {
    let dir = File::open(parent).map_err(io_error("open", parent))?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(dir),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                let path = parent.to_owned();
                return Err(MountError::Locked { path });
            }
            Err(error) => return Err(io_error("lock", parent)(error.into())),
        }
    }
}
