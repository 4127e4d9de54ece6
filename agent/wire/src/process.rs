//! The process at the other end of a socket, until it has ended.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerPidfd;
use nix::sys::statfs::{FsType, fstatfs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Peer;

/// Type of the file system of pidfds from Linux 6.9 on, where each process has its own inode.
const PIDFS: FsType = FsType(0x5049_4446);

/// A process that connected to a socket.
///
/// It is the process at the time of the connection: one that inherited the socket, or got it
/// passed, is another one.
#[derive(Debug)]
pub struct PeerProcess {
    pidfd: OwnedFd,
    number: Option<u64>,
}

impl PeerProcess {
    /// Finds the process at the other end of `socket`. `None` if it cannot be known: before Linux
    /// 6.5 the process must be visible in this one's PID namespace.
    pub fn of(socket: &impl AsFd) -> Option<Self> {
        let pidfd = getsockopt(socket, PeerPidfd).ok();
        let pidfd = pidfd.or_else(|| by_number(Peer::of(socket).ok()?.pid?))?;
        let number = number(&pidfd);
        Some(Self { pidfd, number })
    }

    /// Number that no other process has since the machine started. `None` before Linux 6.9.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut wanted = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // An interrupted poll is repeated at the next look.
        poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

fn by_number(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The number of a process: the inode of its pidfd, where the kernel gives it a distinct one.
fn number(pidfd: &OwnedFd) -> Option<u64> {
    let kind = fstatfs(pidfd).ok()?.filesystem_type();
    let status = fstat(pidfd).ok()?;
    (kind == PIDFS).then_some(status.st_ino)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_its_own_peer_and_lives() {
        let (one, _other) = UnixStream::pair().unwrap();
        if let Some(process) = PeerProcess::of(&one) {
            assert!(!process.has_ended());
            let again = PeerProcess::of(&one).unwrap();
            assert_eq!(process.number(), again.number());
        }
    }

    /// A child connects, hangs up, and goes on for as long as this test likes.
    #[test]
    fn a_process_that_hung_up_has_not_ended_until_it_ends() {
        if std::env::var_os("TETRIS_PEER_SOCKET").is_some() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::tests::connects_and_waits", "--ignored"])
            .env("TETRIS_PEER_SOCKET", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let process = PeerProcess::of(&stream);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it hung up");
        let Some(process) = process else {
            // A kernel that cannot tell.
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        assert!(!process.has_ended());
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        assert!(process.has_ended());
    }

    #[test]
    #[ignore = "another test runs it in a process of its own"]
    fn connects_and_waits() {
        let path = std::env::var_os("TETRIS_PEER_SOCKET").unwrap();
        drop(UnixStream::connect(path).unwrap());
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}
