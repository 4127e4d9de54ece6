//! The time between two looks, which signals end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::command::error::{Error, Result};
use crate::command::exit::Code;

/// The end of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The time is over.
    Time,
    /// The terminal has another size.
    Redraw,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-C, or the end of the terminal.
    Stop,
}

/// Signals as events. They are blocked from the begin, so that the terminal is always given back.
#[derive(Debug)]
pub(super) struct Pause {
    signals: SignalFd,
}

impl Pause {
    /// Blocks the signals.
    pub(super) fn new() -> Result<Self> {
        let mut set = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGTSTP,
            Signal::SIGWINCH,
        ] {
            set.add(signal);
        }
        set.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&set, flags).map_err(failed)?;
        Ok(Self { signals })
    }

    /// Waits for a signal, for at most `interval`.
    pub(super) fn wait(&self, interval: Duration) -> Result<Woken> {
        let deadline = Instant::now() + interval;
        loop {
            if let Some(info) = self.signals.read_signal().map_err(failed)? {
                let signal = i32::try_from(info.ssi_signo).unwrap_or_default();
                return Ok(match Signal::try_from(signal) {
                    Ok(Signal::SIGWINCH) => Woken::Redraw,
                    Ok(Signal::SIGTSTP) => Woken::Suspend,
                    _ => Woken::Stop,
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Woken::Time);
            }
            // Rounded up, lest it spins in the last millisecond.
            let left = left + Duration::from_millis(1);
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut ends = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ends, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Stops this process until the shell continues it.
pub(super) fn suspend() -> Result {
    kill(Pid::this(), Signal::SIGSTOP).map_err(failed)
}

fn failed(error: Errno) -> Error {
    Error::new(Code::Failed, error)
}
