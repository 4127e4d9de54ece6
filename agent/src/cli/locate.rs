//! Which store the command works on.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tetris_agent::Store;
use tetris_store_layout::StoreError;

use super::error::{Error, Result};
use super::exit::Code;

/// Where root mounts a store.
pub(crate) const MOUNT_POINT: &str = "/run/tetris/store";
/// Where everybody else keeps one.
pub(crate) const SHM_DIR: &str = "/dev/shm/tetris";
/// Names the store's directory, to this command and to programs that load models.
pub(crate) const STORE_ENV: &str = "TETRIS_STORE";

/// The store's directory as the user named it, or as it is by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory.
    pub(crate) dir: PathBuf,
    /// Whether the user named it.
    pub(crate) named: bool,
}

impl Place {
    /// The directory `named`, or else the default. An empty name counts as none: that is how many
    /// tools unset a variable.
    pub(crate) fn new(named: Option<OsString>) -> Self {
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

    /// Opens the store.
    ///
    /// # Errors
    /// With [`Code::NoStore`], whatever is wrong with it.
    pub(crate) fn open(&self) -> Result<Store> {
        let unusable = |error: StoreError| Error::new(Code::NoStore, error);
        if !self.dir.exists() {
            return Err(Error::message(
                Code::NoStore,
                format_args!(
                    "there is no tensor store at `{}`; create it with `tetris init`, or name another with --store",
                    self.dir.display()
                ),
            ));
        }
        self.require_trusted()?;
        Store::open(&self.dir).map_err(unusable)
    }

    /// Anybody may make a directory in /dev/shm, and a store's owner answers for what is in it. So
    /// a stranger's store is used only by who names it.
    fn require_trusted(&self) -> Result {
        let owner = std::fs::metadata(&self.dir).map_or(0, |metadata| metadata.uid());
        if self.named || owner == 0 || owner == geteuid().as_raw() {
            return Ok(());
        }
        Err(Error::message(
            Code::NoStore,
            format_args!(
                "the tensor store at `{0}` belongs to user {owner}, who can put anything into it; if you trust them, name it: --store {0}",
                self.dir.display()
            ),
        ))
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
        assert!(!Place::new(Some(OsString::new())).named);
        assert!(!Place::new(None).named);
        let named = Place::new(Some("/x".into()));
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
        let mut place = Place {
            dir: dir.path().to_owned(),
            named: false,
        };
        let refused = place.open().unwrap_err();
        assert_eq!(refused.code, Code::NoStore);
        assert!(refused.to_string().contains("belongs to user 65534"));
        place.named = true;
        let refused = place.open().unwrap_err().to_string();
        assert!(refused.contains("not a tensor store"), "{refused}");
        std::os::unix::fs::chown(dir.path(), Some(0), None).unwrap();
    }
}
