//! The process's transfers to devices, between which the driver registers memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The one link of this process: a registration stalls the copies to every device.
pub(super) static LINK: Link = Link::new();

/// Number of running transfers, and the end of the last one.
#[derive(Debug)]
pub(super) struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    transfers: usize,
    /// `None` before the first transfer.
    ended: Option<Instant>,
}

/// A running transfer. Its drop ends it.
#[derive(Debug)]
pub(super) struct InUse<'a>(&'a Link);

impl Link {
    pub const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                transfers: 0,
                ended: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Begins a transfer.
    pub fn enter(&self) -> InUse<'_> {
        self.lock().transfers += 1;
        InUse(self)
    }

    /// Waits until no transfer has run for `calm`, at most `most` long. Returns true if so.
    pub fn wait(&self, calm: Duration, most: Duration) -> bool {
        let begin = Instant::now();
        let mut state = self.lock();
        loop {
            let ended = state.ended;
            let left = ended.map_or(Duration::ZERO, |at| calm.saturating_sub(at.elapsed()));
            let busy = state.transfers > 0;
            if !busy && left.is_zero() {
                return true;
            }
            let patience = most.saturating_sub(begin.elapsed());
            if patience.is_zero() {
                return false;
            }
            let wait = if busy { patience } else { left.min(patience) };
            let waited = self.changed.wait_timeout(state, wait);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.transfers = state.transfers.saturating_sub(1);
        state.ended = Some(Instant::now());
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_link_is_idle_between_transfers() {
        let link = Link::new();
        assert!(link.wait(LONG, Duration::ZERO), "before the first");
        let (one, other) = (link.enter(), link.enter());
        assert!(!link.wait(Duration::ZERO, Duration::from_millis(1)));
        drop(one);
        assert!(!link.wait(Duration::ZERO, Duration::ZERO), "one still runs");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| link.wait(Duration::ZERO, LONG));
            drop(other);
            assert!(waiter.join().unwrap());
        });
        assert!(!link.wait(LONG, Duration::from_millis(1)), "not for long");
    }
}
