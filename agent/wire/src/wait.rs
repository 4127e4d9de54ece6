//! Waits for a socket, with wake-ups from other threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::WireError;

/// Wakes a thread that waits in [`is_readable`].
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that does not ring.
    ///
    /// # Errors
    ///
    /// The system's error: this process may open no more files.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes the thread, now or at its next wait.
    pub fn ring(&self) {
        // It fails only after 2^64 rings without an answer, and then the bell is ringing.
        let _ringing = rustix::io::write(&self.0, &1u64.to_le_bytes());
    }

    /// Stops ringing.
    pub fn hush(&self) {
        let _silent = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// True if the socket is readable, or the peer hung up.
    pub socket: bool,
    /// True if the bell rang.
    pub bell: bool,
}

/// Waits until `socket` is readable, `bell` rings, or the deadline, if any, passes.
///
/// # Errors
///
/// [`WireError::Io`] if the wait fails.
pub fn is_readable(
    socket: BorrowedFd<'_>,
    bell: &Bell,
    deadline: Option<Instant>,
) -> Result<Ready, WireError> {
    let bell = bell.0.as_fd();
    let mut both = [
        PollFd::from_borrowed_fd(socket, PollFlags::IN),
        PollFd::from_borrowed_fd(bell, PollFlags::IN),
    ];
    wait(&mut both, deadline)?;
    let [socket, bell] = both.map(|entry| !entry.revents().is_empty());
    Ok(Ready { socket, bell })
}

/// Waits until `socket` is readable, or writable if `to_write` is true.
pub(crate) fn until(
    socket: BorrowedFd<'_>,
    to_write: bool,
    deadline: Instant,
) -> Result<(), WireError> {
    let events = if to_write {
        PollFlags::OUT
    } else {
        PollFlags::IN
    };
    match wait(
        &mut [PollFd::from_borrowed_fd(socket, events)],
        Some(deadline),
    )? {
        0 => Err(WireError::TimedOut),
        _ => Ok(()),
    }
}

fn wait(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> Result<usize, WireError> {
    loop {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.map(|left| {
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            })
        });
        match poll(fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
