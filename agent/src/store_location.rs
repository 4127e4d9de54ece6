//! The store that a process uses when nobody passes one: the rule of every way into Tetris.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tetris_store_layout::{Store, StoreError};
use thiserror::Error;

/// Directory at which root mounts a store.
pub const MOUNT_POINT: &str = "/run/tetris/store";
/// Directory of a store for other users.
pub const SHM_DIR: &str = "/dev/shm/tetris";
/// Names the store's directory, to the command `tetris` and to programs that load models.
pub const STORE_ENV: &str = "TETRIS_STORE";

/// A store's directory as the user named it, or as it is by default.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLocation {
    /// The directory.
    pub dir: PathBuf,
    /// True if the user named it.
    pub named: bool,
}

/// The reason that the store of a location cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreLocationError {
    /// There is no such directory.
    #[error("there is no tensor store at `{}`; create it with `tetris init`, or name another with --store or {STORE_ENV}", dir.display())]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// Nobody named this store, and it belongs to a stranger.
    #[error("the tensor store at `{0}` belongs to user {owner}, who can put anything into it; if you trust them, name it: --store {0}, or {STORE_ENV}={0}", dir.display())]
    Untrusted {
        /// The directory.
        dir: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreLocation {
    /// The directory `named`, or else the default. An empty name counts as none: that is how many
    /// tools unset a variable.
    pub fn new(named: Option<OsString>) -> Self {
        match named.filter(|name| !name.is_empty()) {
            Some(name) => Self {
                dir: name.into(),
                named: true,
            },
            None => Self {
                dir: default_dir().into(),
                named: false,
            },
        }
    }

    /// The directory `dir`, which the user named.
    pub fn named(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            named: true,
        }
    }

    /// The directory that [`STORE_ENV`] names, or else the default.
    pub fn from_env() -> Self {
        Self::new(std::env::var_os(STORE_ENV))
    }

    /// Opens the store. Its owner must be this user or root, unless the user named the directory.
    ///
    /// # Errors
    /// The reason that it cannot be used.
    pub fn open(&self) -> Result<Store, StoreLocationError> {
        if !self.dir.exists() {
            let dir = self.dir.clone();
            return Err(StoreLocationError::Missing { dir });
        }
        self.require_trusted()?;
        Ok(Store::open(&self.dir)?)
    }

    /// Anybody may make a directory in /dev/shm, and a store's owner decides its content. So a
    /// stranger's store is used only by its name.
    fn require_trusted(&self) -> Result<(), StoreLocationError> {
        let owner = std::fs::metadata(&self.dir).map_or(0, |metadata| metadata.uid());
        if self.named || owner == 0 || owner == geteuid().as_raw() {
            return Ok(());
        }
        Err(StoreLocationError::Untrusted {
            dir: self.dir.clone(),
            owner,
        })
    }
}

/// A mounted store if there is one, else the one in /dev/shm.
fn default_dir() -> &'static str {
    let mounted = Path::new(MOUNT_POINT).join("store").exists();
    if mounted { MOUNT_POINT } else { SHM_DIR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_counts_as_none() {
        assert!(!StoreLocation::new(Some(OsString::new())).named);
        assert!(!StoreLocation::new(None).named);
        let named = StoreLocation::new(Some("/x".into()));
        assert_eq!((named.dir.as_path(), named.named), (Path::new("/x"), true));
    }

    #[test]
    fn a_stranger_s_store_must_be_named() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: needs root, to make a directory that belongs to somebody else");
            return;
        }
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        std::os::unix::fs::chown(dir.path(), Some(65_534), None).unwrap();
        let mut place = StoreLocation {
            dir: dir.path().to_owned(),
            named: false,
        };
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
}
