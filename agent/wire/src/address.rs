//! Address of a socket, however long its path.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

/// Address of a socket. The kernel takes paths of up to 107 bytes; a longer one is reached through
/// a descriptor of its folder, which this holds.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    address: SocketAddrUnix,
    _folder: Option<OwnedFd>,
}

impl Address {
    /// The address of the socket at `path`.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened, or the name itself is too long.
    pub fn of(path: &Path) -> io::Result<Self> {
        match SocketAddrUnix::new(path) {
            Err(Errno::NAMETOOLONG) => {}
            address => {
                return Ok(Self {
                    path: path.to_owned(),
                    address: address?,
                    _folder: None,
                });
            }
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or(OsStr::new(""));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(folder, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
        let path = path.join(name);
        let address = SocketAddrUnix::new(&path)?;
        Ok(Self {
            path,
            address,
            _folder: Some(folder),
        })
    }

    /// A path short enough to bind or connect to, valid while this value lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn socket_address(&self) -> &SocketAddrUnix {
        &self.address
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_in_a_deep_folder_can_be_bound_and_reached() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let address = Address::of(&deep.join("daemon")).unwrap();
        let _listener = UnixListener::bind(address.path()).unwrap();
        assert!(deep.join("daemon").exists());
        assert!(UnixStream::connect(address.path()).is_ok());
    }
}
