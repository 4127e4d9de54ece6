//! Opening and creating a store.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat, lstat, major, minor};
use nix::sys::statfs::TMPFS_MAGIC;
use nix::unistd::{AccessFlags, access};

use crate::digest::{Digest, ObjectId};
use crate::error::{DecodeError, IoError, PublishError, StoreError};
use crate::file_system::FileSystemType;
use crate::folder::{Folder, PATHS, SUSPECT, TRUST_DOMAINS};
use crate::header::{StoreHeader, StoreId};
use crate::interrupted::retried;
use crate::lock::{CreationLock, is_obstructed};
use crate::mount_list::is_idmapped;
use crate::open_file::{Opening, open_file, open_path, open_soon};
use crate::unnamed_file::link_new;

/// Name of the header file.
pub(crate) const HEADER: &str = "store";
/// Name of the file that creation locks lie on.
const LOCKS: &str = "locks";
/// The same, as it is reached from the folder of the objects, whose descriptor the store has.
const LOCKS_FROM_OBJECTS: &str = "../locks";
/// Name of the node daemon's socket (LAYOUT.md 11).
const DAEMON: &str = "daemon";
/// Names of files that only a daemon makes: its sockets, and those of its GPU mirror with their lock.
pub(crate) const DAEMON_FILES: [&str; 5] = ["daemon", "daemon.new", "gpu", "gpu.new", "gpu.lock"];
/// Name of the file in which the reclaimer keeps what it learned (LAYOUT.md 1).
pub const RECLAIMER_STATE: &str = "reclaimer-state";
/// Name of that file until it is complete.
pub const RECLAIMER_STATE_NEW: &str = "reclaimer-state.new";
/// Name of the file that records which starts of a daemon ended while they read the store (LAYOUT.md 5.8).
pub const RECLAIMER_READING: &str = "reclaimer-reading";

/// User and group id of the sockets of a daemon that gives pods their volumes. Mounts for pods give no other owner an
/// id (LAYOUT.md 4), and a socket whose owner has none cannot be connected to. No one runs as this user: it is one of
/// the ids that systemd keeps free.
pub const SOCKET_USER: u32 = 65_533;

/// Everything needed to find an object and to notice that it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// BLAKE3-256 of the bytes.
    pub id: ObjectId,
    /// CRC-32 of the bytes.
    pub crc: u32,
    /// Length in bytes.
    pub len: u64,
}

impl ObjectRef {
    /// The reference to an object of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            id: ObjectId::of(bytes),
            crc: crc32fast::hash(bytes),
            len: bytes.len() as u64,
        }
    }

    /// The object's file name.
    pub fn file_name(&self) -> String {
        let mut name = String::with_capacity(64 + 1 + 8);
        self.id.0.push_hex(&mut name);
        let _infallible = write!(name, "-{:08x}", self.crc);
        name
    }
}

/// Options for the creation of a store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Accept a file system other than tmpfs. The protocols hold on any local file system with
    /// `O_TMPFILE`; memory speed and huge pages are lost.
    pub allow_other_file_systems: bool,
}

impl CreateOptions {
    /// Sets [`CreateOptions::allow_other_file_systems`].
    pub fn with_allow_other_file_systems(mut self, allow: bool) -> Self {
        self.allow_other_file_systems = allow;
        self
    }
}

/// An open tensor store.
///
/// Cheap to share by reference between threads; all operations take `&self`.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    header: StoreHeader,
    /// Open as long as the store: no one can take a write lease on a file that someone else has open for reading.
    header_file: File,
    writable: bool,
    device: (u64, u64),
    objects: OwnedFd,
    manifests: OwnedFd,
    identities: OwnedFd,
    derived: OwnedFd,
    quarantine: OwnedFd,
}

impl Store {
    /// Creates a store in `root`, which is made if missing and must be empty; opens it if it is a
    /// store already. Safe against others that do the same.
    pub fn create(root: impl AsRef<Path>, options: &CreateOptions) -> Result<Self, StoreError> {
        let root = root.as_ref();
        if root.exists() {
            match Self::open(root) {
                Err(StoreError::NotAStore { .. }) => {}
                other => return other,
            }
            require_empty(root)?;
        }
        if !options.allow_other_file_systems {
            require_tmpfs(root)?;
        }
        make_dir(root)?;
        for folder in Folder::ALL {
            make_dir(&root.join(folder.name()))?;
        }
        make_dir(&root.join(PATHS))?;
        let locks = root.join(LOCKS);
        // Its mode is 0600: a process that can open it can put a read lock in the way of others.
        match open_path(&locks, Opening::Create) {
            // One with a lease on it is there.
            Ok(_) | Err(Errno::EWOULDBLOCK) => {}
            Err(error) => return Err(IoError::new("create", &locks, error).into()),
        }
        let header = StoreHeader {
            id: random_id(root)?,
            created_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| age.as_secs()),
        };
        // Last, and atomic: a directory with a header is a complete store.
        let dir = open_dir(root)?;
        link_new(&dir, root, HEADER, &header.encode())?;
        Self::open(root)
    }

    /// Opens the store in `root`.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`] where there is none, [`StoreError::Version`] where another
    /// version made it, [`StoreError::Header`] where the header is damaged.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        let root = root.as_ref();
        let (header_file, header) = open_header(root)?;
        let folder = |folder: Folder| open_folder(&root.join(folder.name()));
        let objects = folder(Folder::Objects)?;
        let stat = fstat(&objects).map_err(|error| IoError::new("stat", root, error))?;
        Ok(Self {
            root: root.to_owned(),
            header,
            header_file,
            device: (major(stat.st_dev), minor(stat.st_dev)),
            writable: access(&root.join(Folder::Objects.name()), AccessFlags::W_OK).is_ok(),
            objects,
            manifests: folder(Folder::Manifests)?,
            identities: folder(Folder::Identities)?,
            derived: folder(Folder::Derived)?,
            quarantine: folder(Folder::Quarantine)?,
        })
    }

    /// Identity of the store in `root`, by its header: nothing else of it is opened. For processes that look after
    /// stores whose owner they do not trust.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn id_in(root: impl AsRef<Path>) -> Result<StoreId, StoreError> {
        let (_, header) = open_header(root.as_ref())?;
        Ok(header.id)
    }

    /// Returns true if the directory still is the opened store. Another one may be mounted there, or have
    /// been made there, since. No file is opened for it, so that no lease can be in the way.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn is_still_there(&self) -> Result<bool, StoreError> {
        let path = self.root.join(HEADER);
        let failed = |error| IoError::new("stat", &path, error);
        let named = match lstat(&path) {
            Err(Errno::ENOENT) if self.root.is_dir() => {
                let path = self.root.clone();
                return Err(StoreError::NotAStore { path });
            }
            named => named.map_err(failed)?,
        };
        let open_header = fstat(&self.header_file).map_err(failed)?;
        if (named.st_dev, named.st_ino) != (open_header.st_dev, open_header.st_ino) {
            return Ok(false);
        }
        Ok(read_header(&self.root, &self.header_file)?.id == self.header.id)
    }

    /// The store's directory, as it was given.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The store's random identity.
    pub fn id(&self) -> StoreId {
        self.header.id
    }

    /// Time of the store's creation.
    pub fn created(&self) -> SystemTime {
        // A header with another time was refused.
        self.header.created().unwrap_or(UNIX_EPOCH)
    }

    /// Returns true if this process may publish and reclaim; otherwise it can only map.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The directory of the objects, each under its [`ObjectRef::file_name`].
    pub fn objects_dir(&self) -> PathBuf {
        self.root.join(Folder::Objects.name())
    }

    /// Major and minor number of the device that it lies on.
    pub fn device(&self) -> (u64, u64) {
        self.device
    }

    /// The user who owns the store at this moment, and so publishes and reclaims.
    pub fn owner(&self) -> Result<u32, IoError> {
        let stat = fstat(&self.objects).map_err(|error| IoError::new("stat", &self.root, error))?;
        Ok(stat.st_uid)
    }

    /// Returns true if this process sees the store through an idmapped mount, on which its owner has no id: neither this
    /// user nor root of a container owns a file there (LAYOUT.md 4).
    pub fn hides_owner(&self) -> bool {
        is_idmapped(&self.objects)
    }

    /// Path of an object, for programs that map it by path. The path is valid while the object is
    /// referenced.
    pub fn object_path(&self, object: &ObjectRef) -> PathBuf {
        self.path(Folder::Objects, &object.file_name())
    }

    /// Path of the socket of the node daemon that looks after this store, if one does (LAYOUT.md
    /// 11).
    pub fn daemon_socket(&self) -> PathBuf {
        self.root.join(DAEMON)
    }

    /// Takes the advisory creation lock for `key`; see [`CreationLock`]. `give_up` is asked between
    /// attempts and ends the wait when it returns `true`.
    pub fn creation_lock(
        &self,
        key: &Digest,
        wait: Duration,
        give_up: impl FnMut() -> bool,
    ) -> Option<CreationLock> {
        self.lock_key(key, wait, give_up).ok().flatten()
    }

    /// Returns true if a process that has no use for the creation lock of `key` keeps others from
    /// taking it, by a read lock or a lease.
    pub fn is_obstructed(&self, key: &Digest) -> bool {
        match self.open_locks() {
            Ok(file) => is_obstructed(&file, key),
            Err(error) => error == Errno::EWOULDBLOCK,
        }
    }

    /// As [`Store::creation_lock`], but the file of the locks must be there and open.
    pub(crate) fn lock_key(
        &self,
        key: &Digest,
        wait: Duration,
        give_up: impl FnMut() -> bool,
    ) -> Result<Option<CreationLock>, IoError> {
        let deadline = Instant::now() + wait;
        match self.open_locks() {
            Ok(file) => Ok(CreationLock::acquire(file, key, deadline, give_up)),
            Err(Errno::EWOULDBLOCK) => Ok(None),
            Err(error) => Err(IoError::new("open", self.root.join(LOCKS), error)),
        }
    }

    /// Device and inode of the file of the locks.
    pub(crate) fn locks_file(&self) -> Option<((u64, u64), u64)> {
        let stat = std::fs::metadata(self.root.join(LOCKS)).ok()?;
        let device = (major(stat.dev()), minor(stat.dev()));
        Some((device, stat.ino()))
    }

    /// Opens the file of the locks, as its own description.
    fn open_locks(&self) -> Result<File, Errno> {
        open_file(&self.objects, LOCKS_FROM_OBJECTS, Opening::Write)
    }

    pub(crate) fn header_file(&self) -> &File {
        &self.header_file
    }

    pub(crate) fn folder(&self, folder: Folder) -> &OwnedFd {
        match folder {
            Folder::Objects => &self.objects,
            Folder::Manifests => &self.manifests,
            Folder::Identities => &self.identities,
            Folder::Derived => &self.derived,
            Folder::Quarantine => &self.quarantine,
        }
    }

    pub(crate) fn path(&self, folder: Folder, name: &str) -> PathBuf {
        self.root.join(folder.name()).join(name)
    }

    pub(crate) fn require_writable(&self) -> Result<(), PublishError> {
        if self.writable {
            Ok(())
        } else {
            Err(PublishError::ReadOnly {
                path: self.root.clone(),
            })
        }
    }
}

fn open_header(root: &Path) -> Result<(File, StoreHeader), StoreError> {
    let path = root.join(HEADER);
    let file = match open_soon(&path) {
        Ok(file) => file,
        Err(Errno::ENOENT) if root.is_dir() => {
            return Err(StoreError::NotAStore { path: root.into() });
        }
        Err(error) => return Err(IoError::of_open(&path, error).into()),
    };
    let header = read_header(root, &file)?;
    Ok((file, header))
}

fn read_header(root: &Path, file: &File) -> Result<StoreHeader, StoreError> {
    let path = root.join(HEADER);
    let bytes = StoreHeader::bytes_of(file).map_err(|error| IoError::new("read", &path, error))?;
    StoreHeader::decode(&bytes).map_err(|source| match source {
        DecodeError::Version { found } => StoreError::Version {
            path: root.into(),
            found,
        },
        source => StoreError::Header { path, source },
    })
}

fn make_dir(path: &Path) -> Result<(), IoError> {
    match DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(IoError::new("create directory", path, error)),
    }
}

/// Opens a folder of a store. A link in its place leads nowhere.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, IoError> {
    open_dir_with(path, OFlag::O_NOFOLLOW)
}

pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, IoError> {
    open_dir_with(path, OFlag::empty())
}

fn open_dir_with(path: &Path, more: OFlag) -> Result<OwnedFd, IoError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | more;
    retried(|| open(path, flags, Mode::empty()))
        .map_err(|error| IoError::new("open directory", path, error))
}

/// Returns true if `name`, in a store's root, is a name of LAYOUT.md 1.
pub(crate) fn is_part_of_store(name: &OsStr) -> bool {
    name == LOCKS
        || name == HEADER
        || DAEMON_FILES.iter().any(|file| name == *file)
        || name == RECLAIMER_STATE
        || name == RECLAIMER_STATE_NEW
        || name == RECLAIMER_READING
        || name == PATHS
        || name == SUSPECT
        || name == TRUST_DOMAINS
        || Folder::ALL.iter().any(|folder| name == folder.name())
}

/// A store is created in an empty directory, or in one where an earlier attempt was cut short, or where a
/// daemon's socket outlived the store that was there.
fn require_empty(root: &Path) -> Result<(), StoreError> {
    if names_in(root)?.iter().all(|name| is_part_of_store(name)) {
        return Ok(());
    }
    Err(StoreError::NotEmpty { path: root.into() })
}

/// Names of a directory's entries, without `.` and `..`.
pub(crate) fn names_in(path: &Path) -> Result<Vec<OsString>, IoError> {
    let failed = |error| IoError::new("list", path, error);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut dir = retried(|| Dir::open(path, flags, Mode::empty())).map_err(failed)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = entry.map_err(failed)?.file_name().to_bytes().to_vec();
        if !matches!(&name[..], b"." | b"..") {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Looks at the directory, or at the nearest one above that is there, so that nothing is made in vain.
fn require_tmpfs(root: &Path) -> Result<(), StoreError> {
    let absolute = std::path::absolute(root).unwrap_or_else(|_| root.into());
    let there = absolute.ancestors().find(|dir| dir.exists());
    let dir = open_dir(there.unwrap_or(root))?;
    let kind = FileSystemType::of(dir.as_fd())
        .map_err(|error| IoError::new("stat the file system of", root, error))?;
    if kind.magic() == TMPFS_MAGIC.0 as u32 {
        Ok(())
    } else {
        Err(StoreError::NotTmpfs {
            path: root.into(),
            found: kind,
        })
    }
}

fn random_id(root: &Path) -> Result<StoreId, IoError> {
    use std::io::Read;
    let mut id = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut id))
        .map_err(|error| IoError::new("read /dev/urandom for the id of", root, error))?;
    Ok(StoreId(id))
}
