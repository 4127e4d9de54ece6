//! Memory and output of one connection, charged to its client.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use tetris_service_kit::budget::{Budget, Charge, Exceeded};
use tetris_service_kit::pace::{Pace, Progress};
use tokio::time::Instant;

/// Bytes by which a charge grows, so that few requests need the common lock.
const STEP: usize = 4 << 10;
/// Bytes beyond need that stay charged.
const SPARE: usize = 64 << 10;
/// Memory of a part of a response in queues, besides its bytes.
const PART: usize = 256;

/// Memory of one connection, and its progress in reading output.
#[derive(Debug)]
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    charge: Charge<IpAddr>,
    /// Number of bytes in use, at most those charged.
    used: usize,
    /// Number of parts of responses that are not written.
    parts: usize,
    /// True if the socket takes no more bytes.
    blocked: bool,
    /// Progress of the client, which is waited for while `parts` or `blocked` asks for it.
    progress: Progress,
}

impl Ledger {
    /// Charges `bytes` for a new connection of `client`.
    pub(crate) fn open(
        budget: &Budget<IpAddr>,
        client: IpAddr,
        bytes: usize,
        pace: Pace,
    ) -> Result<Arc<Self>, Exceeded> {
        let charge = budget.charge(client, bytes)?;
        Ok(Arc::new(Self {
            inner: Mutex::new(Inner {
                charge,
                used: bytes,
                parts: 0,
                blocked: false,
                progress: Progress::new(pace),
            }),
        }))
    }

    /// Charges `bytes` until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held, Exceeded> {
        self.lock().take(bytes)?;
        Ok(Held {
            bytes,
            ledger: Arc::clone(self),
        })
    }

    /// Charges `bytes` until the connection ends.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), Exceeded> {
        self.lock().take(bytes)
    }

    /// Charges a part of a response until it is written.
    pub(crate) fn output(self: &Arc<Self>, bytes: Bytes) -> Result<Output, Exceeded> {
        let charged = PART.saturating_add(bytes.len());
        let mut inner = self.lock();
        inner.take(charged)?;
        if !inner.waits() {
            inner.progress.waits(now());
        }
        inner.parts = inner.parts.saturating_add(1);
        Ok(Output {
            bytes,
            charged,
            ledger: Arc::clone(self),
        })
    }

    /// Notes that the socket took `bytes`.
    pub(crate) fn wrote(&self, bytes: usize) {
        let mut inner = self.lock();
        if !inner.waits() {
            return;
        }
        let now = now();
        inner.blocked = false;
        inner.progress.moved(now, bytes);
        if inner.waits() {
            inner.progress.waits(now);
        }
    }

    /// Notes that the socket takes no bytes.
    pub(crate) fn blocked(&self) {
        let mut inner = self.lock();
        if !inner.waits() {
            inner.progress.waits(now());
        }
        inner.blocked = true;
    }

    /// Returns true if the client has not read output for too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.lock().progress.is_overdue(now())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    const fn waits(&self) -> bool {
        self.blocked || self.parts > 0
    }

    fn take(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let used = self.used.saturating_add(bytes);
        if used > self.charge.bytes() {
            let rounded = used.checked_next_multiple_of(STEP).unwrap_or(used);
            self.charge
                .grow_to(rounded)
                .or_else(|_| self.charge.grow_to(used))?;
        }
        self.used = used;
        Ok(())
    }

    fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        if self.charge.bytes().saturating_sub(self.used) > SPARE {
            let rounded = self.used.checked_next_multiple_of(STEP);
            self.charge.shrink_to(rounded.unwrap_or(self.used));
        }
    }
}

/// Bytes charged to a connection's client.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.lock().give_back(self.bytes);
    }
}

/// A part of a response, charged until hyper has written it.
#[derive(Debug)]
pub(crate) struct Output {
    bytes: Bytes,
    charged: usize,
    ledger: Arc<Ledger>,
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut inner = self.ledger.lock();
        inner.give_back(self.charged);
        inner.parts = inner.parts.saturating_sub(1);
        if !inner.waits() {
            inner.progress.pauses(now());
        }
    }
}

/// The time, as tests may set it.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const PACE: Pace = Pace {
        grace: Duration::from_secs(10),
        bytes_per_second: 100,
    };

    fn client() -> IpAddr {
        [10, 0, 0, 1].into()
    }

    #[test]
    fn a_connection_is_charged_for_all_that_it_holds_and_gives_it_back() {
        let budget = Budget::new(1 << 20);
        let ledger = Ledger::open(&budget, client(), 1_000, PACE).unwrap();
        assert_eq!(budget.used(), 1_000);
        let input = ledger.hold(100_000).unwrap();
        let output = ledger.output(Bytes::from(vec![0; 100_000])).unwrap();
        assert!(
            (201_000..210_000).contains(&budget.used()),
            "{}",
            budget.used()
        );
        assert!(ledger.hold(1 << 19).is_err(), "one client has half");
        drop((input, output));
        assert!(budget.used() < 1_000 + STEP + SPARE);
        drop(ledger);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_client_may_use_its_part_to_the_last_byte() {
        let budget = Budget::new(20_000);
        let ledger = Ledger::open(&budget, client(), 1, PACE).unwrap();
        let charge = ledger.hold(9_999).unwrap();
        assert!(ledger.hold(1).is_err());
        drop(charge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_overdue_and_one_at_the_rate_is_not() {
        let budget = Budget::new(1 << 20);
        let ledger = Ledger::open(&budget, client(), 1, PACE).unwrap();
        advance(PACE.grace * 10).await;
        assert!(!ledger.is_overdue(), "there is no output");
        let output = ledger.output(Bytes::from(vec![0; 50_000])).unwrap();
        for _ in 0..100 {
            advance(PACE.grace / 2).await;
            ledger.wrote(500);
            assert!(!ledger.is_overdue());
        }
        advance(PACE.grace).await;
        assert!(ledger.is_overdue());
        drop(output);
        assert!(!ledger.is_overdue());
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_takes_nothing_counts_without_a_body() {
        let budget = Budget::new(1 << 20);
        let ledger = Ledger::open(&budget, client(), 1, PACE).unwrap();
        ledger.blocked();
        advance(PACE.grace / 2).await;
        ledger.blocked();
        advance(PACE.grace / 2).await;
        assert!(ledger.is_overdue());
        ledger.wrote(1);
        assert!(!ledger.is_overdue());
    }
}
