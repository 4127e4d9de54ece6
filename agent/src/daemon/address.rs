//! A socket's path, however long.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::UnixAddr;
use nix::sys::stat::Mode;

/// Where a socket is. The kernel takes paths of up to 107 bytes; a longer one is reached through a descriptor of
/// its folder, which this holds.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    addr: UnixAddr,
    _folder: Option<OwnedFd>,
}

impl Address {
    /// The address of the socket `name` in `folder`.
    ///
    /// # Errors
    /// When `folder` cannot be opened, or `name` itself is too long.
    pub fn new(folder: &Path, name: &OsStr) -> io::Result<Self> {
        let path = folder.join(name);
        match UnixAddr::new(&path) {
            Err(Errno::ENAMETOOLONG) => {}
            addr => return Ok(Self::of(path, addr?, None)),
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(folder, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
        let path = path.join(name);
        let addr = UnixAddr::new(&path)?;
        Ok(Self::of(path, addr, Some(folder)))
    }

    fn of(path: PathBuf, addr: UnixAddr, folder: Option<OwnedFd>) -> Self {
        Self {
            path,
            addr,
            _folder: folder,
        }
    }

    /// A path short enough to bind or connect to, valid while this value lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn addr(&self) -> &UnixAddr {
        &self.addr
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_in_a_deep_folder_can_be_bound_and_reached() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let address = Address::new(&deep, OsStr::new("daemon")).unwrap();
        let _listener = UnixListener::bind(address.path()).unwrap();
        assert!(deep.join("daemon").exists());
        assert!(UnixStream::connect(address.path()).is_ok());
    }
}
