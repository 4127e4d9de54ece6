//! The server on a Unix socket.

use std::fs::{Permissions, set_permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;

use axum::Router;
use axum::http::Extensions;
use tokio::net::{UnixListener, UnixStream};

use super::UnixHttpError;
use crate::http::{Accept, Accepted, ConnectionLimits, Open, serve_on};

/// Mode of the socket. The rights on its directory decide who reaches it.
const MODE: u32 = 0o666;

/// The client's process at the time when it connected, among the extensions of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// Its process id, where this process can see it.
    pub pid: Option<i32>,
}

/// Listens on `path`. Takes the place of a socket on which no one listens.
///
/// # Errors
/// [`UnixHttpError::InUse`] if a process listens there; [`UnixHttpError::Io`] if the directory is
/// missing or may not be written, or another kind of file has the name.
///
/// # Panics
/// Outside of a tokio runtime with I/O, as [`UnixListener::bind`].
pub fn listen(path: &Path) -> Result<UnixListener, UnixHttpError> {
    let io = |action| {
        let path = path.to_owned();
        move |source| UnixHttpError::Io {
            action,
            path,
            source,
        }
    };
    let listener = match UnixListener::bind(path) {
        Ok(listener) => listener,
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let stat = std::fs::symlink_metadata(path).map_err(io("look at"))?;
            if !stat.file_type().is_socket() {
                return Err(io("replace a file that is no socket:")(error));
            }
            match BlockingStream::connect(path) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Ok(_) => {
                    let path = path.to_owned();
                    return Err(UnixHttpError::InUse { path });
                }
                Err(source) => return Err(io("take over")(source)),
            }
            std::fs::remove_file(path).map_err(io("remove the dead socket"))?;
            UnixListener::bind(path).map_err(io("listen on"))?
        }
        Err(source) => return Err(io("listen on")(source)),
    };
    set_permissions(path, Permissions::from_mode(MODE)).map_err(io("set the mode of"))?;
    Ok(listener)
}

/// Serves `router` until `stop` completes, each request with its [`Peer`]. Then answers the
/// requests that have arrived, for at most [`ConnectionLimits::stop`].
pub async fn serve(
    listener: UnixListener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    serve_on(&listener, AsItIs, router, limits, stop).await;
}

impl Accept for UnixListener {
    type Connection = UnixStream;
    /// The client's user id.
    type Client = u32;

    async fn accept(&self) -> io::Result<Accepted<UnixStream, u32>> {
        let (connection, _) = Self::accept(self).await?;
        let credentials = connection.peer_cred()?;
        let peer = Peer {
            uid: credentials.uid(),
            gid: credentials.gid(),
            pid: credentials.pid(),
        };
        let mut extensions = Extensions::new();
        extensions.insert(peer);
        Ok(Accepted {
            connection,
            client: peer.uid,
            extensions,
        })
    }
}

/// Connections as they are.
#[derive(Debug, Clone, Copy)]
struct AsItIs;

impl Open<UnixStream> for AsItIs {
    type Stream = UnixStream;

    async fn open(&self, connection: UnixStream) -> Option<UnixStream> {
        Some(connection)
    }
}
