//! Waits for arrivals on a consumer's own stream, so that kernels are queued ahead of their bytes.
//!
//! A stream runs a wait as one of its steps. The host goes on and queues the kernels after it. A
//! wait returns also if its object will never arrive, because a stream cannot be stopped: then the
//! kernels after it compute with undefined bytes. So **a consumer must ask [`Arrivals::check`] after
//! its work and before it uses a result**, and repeat the work from another copy if that fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ClientError;
use super::events::Events;

/// Waits of a consumer on its streams, and the first error among them.
#[derive(Debug, Clone)]
pub struct Arrivals(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    events: Arc<Events>,
    /// Longest wait.
    limit: Duration,
    /// Objects that a stream waits for or has waited for.
    queued: Mutex<Vec<usize>>,
    /// True after a wait that ended without its object.
    failed: AtomicBool,
}

impl Arrivals {
    pub(super) fn new(events: Arc<Events>, limit: Duration) -> Self {
        Self(Arc::new(Shared {
            events,
            limit,
            queued: Mutex::default(),
            failed: AtomicBool::new(false),
        }))
    }

    /// A step of a stream that ends when an object has arrived, or will not. It calls no driver.
    pub(super) fn step(&self, at: usize) -> impl FnOnce() + Send + 'static {
        let mut queued = self.0.queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.push(at);
        drop(queued);
        let shared = Arc::clone(&self.0);
        move || {
            // After an error every wait ends at once: nothing that follows counts.
            if shared.failed.load(Ordering::Acquire) {
                return;
            }
            if let Err(error) = shared.wait(at, shared.limit) {
                tracing::debug!(%error, "a stream goes on without an object");
                shared.failed.store(true, Ordering::Release);
            }
        }
    }

    /// Waits on the host until every object has arrived for which a stream waits. Work that was
    /// queued after the waits had the objects' bytes if this returns without an error.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if an object did not arrive, or not within `limit`: results of work that was
    /// queued after its wait are undefined.
    pub fn check(&self, limit: Duration) -> Result<(), ClientError> {
        let begun = Instant::now();
        let queued = self.0.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = queued.clone();
        for at in queued {
            self.0.wait(at, limit.saturating_sub(begun.elapsed()))?;
        }
        // A step can have given up an object that arrived a moment later.
        if self.0.failed.load(Ordering::Acquire) {
            return Err(timed_out(self.0.limit));
        }
        Ok(())
    }
}

impl Shared {
    fn wait(&self, at: usize, limit: Duration) -> Result<(), ClientError> {
        if self.events.wait(Some(at), limit)? {
            return Ok(());
        }
        Err(timed_out(limit))
    }
}

fn timed_out(limit: Duration) -> ClientError {
    ClientError::TimedOut {
        expected: "an object to arrive",
        limit,
    }
}
