//! Orders to the GPU mirror's thread.
//!
//! The thread may hang in its driver for any time, and orders keep coming. So at most one order of
//! each kind waits, and a new one takes the place of an older one.

use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::GpuMirrorConfig;
use crate::store::OpenStore;

/// Stores to serve, and their configuration.
pub(crate) type Wanted = (Vec<OpenStore>, GpuMirrorConfig);

/// Orders to the thread. The sender of one may have stopped waiting when it is done.
#[expect(
    clippy::large_enum_variant,
    reason = "one exists at a time, and is taken apart at once"
)]
pub(crate) enum Order {
    /// Serve these stores and no others.
    Serve(Wanted, SyncSender<()>),
    /// Release registered pages of these stores, and answer with their bytes.
    Unpin(Vec<String>, SyncSender<u64>),
    /// Nothing was ordered in time.
    Nothing,
}

/// The way to the thread, until either side ends it.
#[derive(Default)]
pub(crate) struct Orders {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    serve: Option<(Wanted, SyncSender<()>)>,
    unpin: Option<(Vec<String>, SyncSender<u64>)>,
    ended: bool,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut Waiting)) -> bool {
        let mut waiting = self.lock();
        if waiting.ended {
            return false;
        }
        put(&mut waiting);
        drop(waiting);
        self.arrived.notify_all();
        true
    }

    /// Orders the stores. Returns false if the thread has ended, as it does without a driver.
    pub(crate) fn serve(&self, wanted: Wanted, done: SyncSender<()>) -> bool {
        self.put(|waiting| waiting.serve = Some((wanted, done)))
    }

    /// Orders the release of pages. Returns false if the thread has ended.
    pub(crate) fn unpin(&self, stores: Vec<String>, done: SyncSender<u64>) -> bool {
        self.put(|waiting| waiting.unpin = Some((stores, done)))
    }

    /// Ends the way: waiting orders are dropped, and no more are taken.
    pub(crate) fn end(&self) {
        let mut waiting = self.lock();
        *waiting = Waiting {
            ended: true,
            ..Waiting::default()
        };
        drop(waiting);
        self.arrived.notify_all();
    }

    /// Waits for the next order, or `longest`; `None` at the end. A pass waits for pages, so they
    /// go first.
    pub(crate) fn next(&self, longest: Option<Duration>) -> Option<Order> {
        let until = longest.map(|longest| Instant::now() + longest);
        let mut waiting = self.lock();
        loop {
            if waiting.ended {
                return None;
            }
            if let Some((stores, done)) = waiting.unpin.take() {
                return Some(Order::Unpin(stores, done));
            }
            if let Some((wanted, done)) = waiting.serve.take() {
                return Some(Order::Serve(wanted, done));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            waiting = match left {
                Some(left) if left.is_zero() => return Some(Order::Nothing),
                Some(left) => {
                    let woken = self.arrived.wait_timeout(waiting, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let woken = self.arrived.wait(waiting);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Orders")
    }
}

/// Ends the orders when the thread ends, however it does.
pub(crate) struct EndOfOrders<'a>(pub(super) &'a Orders);

impl Drop for EndOfOrders<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, sync_channel};

    use super::*;

    #[test]
    fn at_most_one_order_of_each_kind_waits_and_pages_go_first() {
        let orders = Orders::default();
        let config: GpuMirrorConfig = toml::from_str("device_bytes = 1").unwrap();
        let serve = |streams| {
            let (done, served) = sync_channel(1);
            let config = GpuMirrorConfig {
                streams,
                ..config.clone()
            };
            assert!(orders.serve((Vec::new(), config), done));
            served
        };
        let (older, _newer) = (serve(1), serve(2));
        let long = Duration::from_secs(50);
        assert_eq!(
            older.recv_timeout(long),
            Err(RecvTimeoutError::Disconnected)
        );
        let (done, _answer) = sync_channel(1);
        assert!(orders.unpin(vec!["a".to_owned()], done));
        assert!(matches!(orders.next(None), Some(Order::Unpin(stores, _)) if stores == ["a"]));
        assert!(
            matches!(orders.next(None), Some(Order::Serve((_, found), _)) if found.streams == 2)
        );
        assert!(matches!(
            orders.next(Some(Duration::ZERO)),
            Some(Order::Nothing)
        ));
        let (done, answer) = sync_channel(1);
        assert!(orders.unpin(Vec::new(), done));
        drop(EndOfOrders(&orders));
        assert!(orders.next(None).is_none());
        assert_eq!(
            answer.recv_timeout(long),
            Err(RecvTimeoutError::Disconnected)
        );
        let (done, _answer) = sync_channel(1);
        assert!(!orders.unpin(Vec::new(), done));
    }
}
