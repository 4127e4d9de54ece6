//! A user namespace without a process in it, by its descriptor.
//!
//! Only a process with a single thread can enter a new user namespace. So a child does, reports it, and ends with
//! its parent's end of the connection; meanwhile the parent writes the maps and opens the namespace, which the
//! descriptor keeps.
#![allow(unsafe_code, reason = "fork(2) is unsafe")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pause, read, write};

/// The user namespace in which one user has an id, its own, and these groups are shown as others.
pub(crate) fn with_groups(id: u32, groups: &[(u32, u32)]) -> io::Result<OwnedFd> {
    let (mut ours, theirs) = UnixStream::pair()?;
    // SAFETY: The process may have other threads, so the child calls nothing but what is safe in a signal handler:
    // it makes system calls, allocates nothing, takes no lock, and never returns.
    let forked = unsafe { fork() }?;
    let child = match forked {
        ForkResult::Child => in_child(ours, &theirs),
        ForkResult::Parent { child } => Child(child),
    };
    drop(theirs);
    let mut entered = [0];
    ours.read_exact(&mut entered)?;
    let [entered] = entered;
    if entered != 0 {
        return Err(Errno::from_raw(i32::from(entered)).into());
    }
    let folder = format!("/proc/{}", child.0);
    fs::write(format!("{folder}/uid_map"), format!("{id} {id} 1\n"))?;
    let lines = groups
        .iter()
        .map(|(group, shown)| format!("{group} {shown} 1\n"));
    fs::write(format!("{folder}/gid_map"), lines.collect::<String>())?;
    Ok(File::open(format!("{folder}/ns/user"))?.into())
}

/// Enters a new user namespace, reports the error's number, or 0, and waits for its end.
fn in_child(parents: UnixStream, own: &UnixStream) -> ! {
    // Else the parent's end would live as long as the child.
    drop(parents);
    let entered = match unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => 0,
        Err(error) => error as u8,
    };
    let told = write(own, &[entered]);
    // Nothing is ever sent: this ends when the parent closes its end, or has ended.
    while told.is_ok() && read(own, &mut [0]) == Err(Errno::EINTR) {}
    loop {
        let _ended = raise(Signal::SIGKILL);
        pause();
    }
}

/// A child that is ended and waited for.
struct Child(Pid);

impl Drop for Child {
    fn drop(&mut self) {
        let _ended = kill(self.0, Signal::SIGKILL);
        while waitpid(self.0, None) == Err(Errno::EINTR) {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_namespace_is_another_one_and_its_child_is_gone() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: needs root, to map ids");
            return;
        }
        let namespace = File::from(with_groups(65_533, &[(65_533, 65_533)]).unwrap());
        let our_namespace = fs::metadata("/proc/self/ns/user").unwrap();
        assert_ne!(namespace.metadata().unwrap().ino(), our_namespace.ino());
        assert_eq!(waitpid(None, None), Err(Errno::ECHILD));
    }
}
