//! A store's directory by its descriptor, reached without following a link.
//!
//! The owner of the stores is another user, who can put a link in the place of a directory at any
//! moment. So a directory is looked up once, below a directory that only root can replace, and
//! everything else goes by the descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use tetris_store_layout::{CreateOptions, Store, StoreError};

use super::mountinfo::is_mounted_elsewhere;
use super::owner::with_rights_of;

/// As [`Store::create`] makes it.
const MODE: u32 = 0o755;

/// The directories of stores on one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreGround {
    /// The directory below which no link is followed: the root of the stores' tmpfs. Without it,
    /// the directory above each store.
    pub root: Option<PathBuf>,
    /// The user, and group, that owns the stores.
    pub user: u32,
}

/// An open directory, of a store or for one.
#[derive(Debug)]
pub struct StoreDirectory {
    dir: OwnedFd,
    path: PathBuf,
    ground: StoreGround,
}

/// The reason a store's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// There is no store, or none that can be used.
    #[error("{0}")]
    Store(String),
}

impl StoreGround {
    /// The directory at `path`; none where nothing is.
    ///
    /// # Errors
    /// When it is no directory, or a link leads there.
    pub fn open(&self, path: &Path) -> io::Result<Option<StoreDirectory>> {
        let (base, below) = self.divide(path);
        let base = match openat(CWD, base, directory(), Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            base => base?,
        };
        let dir = match open_below(&base, below) {
            Err(Errno::NOENT) => return Ok(None),
            dir => dir?,
        };
        Ok(Some(self.directory(dir, path)))
    }

    /// The store at `path`, made if need be, with all its files by the rights of its owner.
    ///
    /// # Errors
    /// As [`Store::create`], and when a link leads to the directory.
    pub fn create_store(&self, path: &Path) -> Result<StoreDirectory, DirectoryError> {
        let directory = self.make(path).map_err(io_error("create", path))?;
        directory.by_descriptor(|path| Store::create(path, &CreateOptions::default()).map(drop))?;
        Ok(directory)
    }

    fn make(&self, path: &Path) -> io::Result<StoreDirectory> {
        let (base, below) = self.divide(path);
        let base = openat(CWD, base, directory(), Mode::empty())?;
        let dir = with_rights_of(self.user, || make_below(base, below))??;
        Ok(self.directory(dir, path))
    }

    fn divide<'a>(&'a self, path: &'a Path) -> (&'a Path, &'a Path) {
        let root = self.root.as_deref();
        let base = root.filter(|root| path.starts_with(root));
        let base = base.or(path.parent()).unwrap_or(path);
        let below = path.strip_prefix(base).unwrap_or(Path::new(""));
        (base, below)
    }

    fn directory(&self, dir: OwnedFd, path: &Path) -> StoreDirectory {
        StoreDirectory {
            dir,
            path: path.to_owned(),
            ground: self.clone(),
        }
    }
}

impl StoreDirectory {
    /// The path it was found at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user that owns the stores.
    pub fn user(&self) -> u32 {
        self.ground.user
    }

    /// Checks that it has the header of a store. One on which a process holds a lease is there, and
    /// its content is the concern of those who read it later: no one waits for the holder.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn check(&self) -> Result<(), DirectoryError> {
        self.by_descriptor(|path| match Store::id_in(path) {
            Err(error) if error.is_leased() => Ok(()),
            id => id.map(drop),
        })
    }

    /// Returns true if it is mounted by itself somewhere in this thread's mount namespace.
    pub fn is_mounted(&self) -> io::Result<bool> {
        is_mounted_elsewhere(self)
    }

    /// Opens it once more, as this thread's mount namespace has it.
    ///
    /// # Errors
    /// When another directory has its name.
    pub fn again(&self) -> io::Result<Self> {
        let again = self.ground.open(&self.path)?;
        let again = again.ok_or(io::ErrorKind::NotFound)?;
        if again.is(&self.dir)? {
            return Ok(again);
        }
        Err(io::Error::other("it is another directory by now"))
    }

    /// Returns true if `other` is this directory, on whatever mount.
    pub fn is(&self, other: impl AsFd) -> io::Result<bool> {
        let (this, other) = (fstat(&self.dir)?, fstat(other)?);
        Ok((this.st_dev, this.st_ino) == (other.st_dev, other.st_ino))
    }

    /// Its device, as the kernel numbers them.
    pub fn device(&self) -> io::Result<u64> {
        Ok(fstat(&self.dir)?.st_dev)
    }

    /// Does `work` with the rights of the stores' owner, on a path that leads to this directory
    /// whatever becomes of its name.
    fn by_descriptor(
        &self,
        work: impl FnOnce(&Path) -> Result<(), StoreError> + Send,
    ) -> Result<(), DirectoryError> {
        let descriptor = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        let done = with_rights_of(self.ground.user, || work(Path::new(&descriptor)));
        let done = done.map_err(io_error("use", &self.path))?;
        done.map_err(|error| {
            let named = self.path.display().to_string();
            DirectoryError::Store(error.to_string().replace(&descriptor, &named))
        })
    }
}

impl AsFd for StoreDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn directory() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// The directory `below` the other one, which itself may be meant.
pub(crate) fn open_below(base: impl AsFd, below: &Path) -> Result<OwnedFd, Errno> {
    let below = if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    };
    let straight = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = directory() | OFlags::NOFOLLOW;
    openat2(base, below, flags, Mode::empty(), straight)
}

fn make_below(base: OwnedFd, below: &Path) -> io::Result<OwnedFd> {
    let mut dir = base;
    for part in below {
        match mkdirat(&dir, part, Mode::from_raw_mode(MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = open_below(&dir, Path::new(part))?;
    }
    Ok(dir)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    move |source| DirectoryError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
