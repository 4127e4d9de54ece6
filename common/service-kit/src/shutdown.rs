//! Graceful end: signals that ask for it, and the order to stop that all parts of a daemon follow.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Installs handlers of SIGTERM and SIGINT. Returns a future that completes on either.
///
/// # Errors
///
/// Fails if a handler cannot be installed.
pub fn signals() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes once `stopped` is true. A sender that is gone stops too: its daemon ended.
pub async fn until(mut stopped: watch::Receiver<bool>) {
    drop(stopped.wait_for(|stop| *stop).await);
}
