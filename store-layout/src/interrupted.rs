//! System calls that a signal interrupts are made again.

use nix::errno::Errno;

/// Makes a call until it is not interrupted. What the standard library does for its own calls, nix leaves to
/// its caller.
pub(crate) fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}
