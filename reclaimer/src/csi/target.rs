//! A directory of a pod, reached without following any symbolic link.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::error::VolumeError;
use crate::mount::{MountEntry, is_mount_root, mount_of, open_below};

/// As the kubelet makes its own.
const MODE: u32 = 0o750;

/// Directory of a volume.
#[derive(Debug)]
pub(super) struct TargetDirectory {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl TargetDirectory {
    /// The directory `relative` to the kubelet's; `None` when the one above it is not there.
    pub fn open(kubelet_dir: &Path, relative: &Path) -> Result<Option<Self>, VolumeError> {
        let path = kubelet_dir.join(relative);
        let root = match openat(CWD, kubelet_dir, directory(), Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            root => root.map_err(VolumeError::io("open", kubelet_dir))?,
        };
        let Some(name) = relative.file_name() else {
            return Ok(None);
        };
        let above = relative
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        let parent = match above {
            None => root,
            Some(above) => match open_below(&root, above) {
                Err(Errno::NOENT) => return Ok(None),
                parent => parent.map_err(VolumeError::io("open the directory of", &path))?,
            },
        };
        let name = name.to_owned();
        Ok(Some(Self { parent, name, path }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory if it is missing.
    pub fn make(&self) -> Result<(), VolumeError> {
        match mkdirat(&self.parent, &self.name, Mode::from_raw_mode(MODE)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(VolumeError::io("create", &self.path)(error)),
        }
    }

    /// The visible directory: the root of the topmost mount, or the directory itself.
    pub fn dir(&self) -> Result<Option<OwnedFd>, VolumeError> {
        match open_below(&self.parent, Path::new(&self.name)) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(VolumeError::io("open", &self.path)(error)),
        }
    }

    /// The topmost mount, with its visible directory; `None` if nothing is mounted.
    pub fn mounted(&self) -> Result<Option<(MountEntry, OwnedFd)>, VolumeError> {
        let Some(dir) = self.dir()? else {
            return Ok(None);
        };
        let failed = "find out what is mounted at";
        if !is_mount_root(&dir).map_err(VolumeError::io(failed, &self.path))? {
            return Ok(None);
        }
        let entry = mount_of(&dir).map_err(VolumeError::io(failed, &self.path))?;
        Ok(Some((entry, dir)))
    }

    /// Takes away the mount whose root `mounted` is; what still uses it keeps it.
    pub fn unmount(&self, mounted: &OwnedFd) -> Result<(), VolumeError> {
        let by_descriptor = format!("/proc/self/fd/{}", mounted.as_raw_fd());
        match unmount(by_descriptor, UnmountFlags::DETACH) {
            // Someone else was faster.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(VolumeError::io("unmount", &self.path)(error)),
        }
    }

    /// Removes the directory, which must be empty.
    pub fn remove(&self) -> Result<(), VolumeError> {
        match unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(VolumeError::io("remove", &self.path)(error)),
        }
    }
}

fn directory() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}
