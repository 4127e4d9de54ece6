//! Sockets in the kubelet's directories.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::CsiError;

/// Only root may connect: the kubelet is root, and no other user may mount anything.
const SOCKET_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o750;

/// A socket's name, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Name {
    path: PathBuf,
    /// Device and inode: a later process's socket is another one.
    file: (u64, u64),
}

impl Drop for Name {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            // The next start replaces it.
            tracing::warn!(path = %self.path.display(), %error, "a socket was left behind");
        }
    }
}

/// Listens at `path`, in place of a socket without a listener.
pub(super) async fn listen(path: &Path) -> Result<(UnixListener, Name), CsiError> {
    if let Some(dir) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir);
        made.map_err(io_error("create", dir))?;
    }
    clear(path).await?;
    let listener = UnixListener::bind(path).map_err(io_error("listen on", path))?;
    let permissions = Permissions::from_mode(SOCKET_MODE);
    fs::set_permissions(path, permissions).map_err(io_error("set the mode of", path))?;
    let stat = fs::symlink_metadata(path).map_err(io_error("stat", path))?;
    let name = Name {
        path: path.to_owned(),
        file: (stat.dev(), stat.ino()),
    };
    Ok((listener, name))
}

async fn clear(path: &Path) -> Result<(), CsiError> {
    let stat = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(io_error("stat", path))?,
    };
    let path_owned = path.to_owned();
    if !stat.file_type().is_socket() {
        return Err(CsiError::NotASocket { path: path_owned });
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(CsiError::InUse { path: path_owned });
    }
    fs::remove_file(path).map_err(io_error("remove", path))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CsiError {
    move |source| CsiError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
