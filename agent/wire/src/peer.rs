//! Credentials of the other side, from the kernel (SO_PEERCRED).

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

/// The process at the other end of a socket, at the time it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process id; `None` if the process is outside this one's PID namespace, for which the kernel
    /// says 0.
    pub pid: Option<u32>,
}

impl Peer {
    /// Asks the kernel for the peer of `socket`.
    ///
    /// # Errors
    ///
    /// The system's error: `socket` is not a connected UNIX socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        // nix keeps the process id as a number. In rustix it is non-zero by its type, and 0 would
        // be undefined behavior.
        let credentials = getsockopt(socket, PeerCredentials)?;
        let pid = u32::try_from(credentials.pid()).unwrap_or(0);
        Ok(Self {
            uid: credentials.uid(),
            gid: credentials.gid(),
            pid: (pid > 0).then_some(pid),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn this_process_is_its_own_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
    }

    #[test]
    fn only_a_connected_socket_has_a_peer() {
        assert!(Peer::of(&io::pipe().unwrap().0).is_err());
    }
}
