//! Ranges of files, with retries, a least rate and the limits of the pull.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use rand::RngExt;
use tetris_loader::Progress;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::checksum::Promise;
use crate::error::{PullError, Trouble};
use crate::listing::{Listing, RemoteFile};
use crate::options::PullOptions;
use crate::origin::{Origin, SmallFile};
use crate::pace::Pace;

/// Least bytes per second of waiting for a range.
const LEAST_RATE: u64 = 16 << 10;
/// Progress after which the count of attempts begins again.
const PROGRESS: u64 = 1 << 20;
/// First wait between two attempts; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Longest wait that a source may ask for.
const LONGEST_ASKED: Duration = Duration::from_mins(2);
/// Longest time of one attempt to write sidecars.
const LONGEST_PUT: Duration = Duration::from_mins(5);
/// Ranges with less than this between them are fetched as one: that takes less time than a request.
const GAP: u64 = 64 << 10;
/// Longest range made of several.
const JOINED: u64 = 4 << 20;

/// Fetches ranges from a source.
#[derive(Debug)]
pub(crate) struct Fetcher<'a> {
    origin: &'a Origin,
    options: &'a PullOptions,
    pace: Option<Pace>,
    connections: Semaphore,
    requests: AtomicU64,
    fetched: AtomicU64,
    /// Bytes of the pull done so far, fetched or not, and all of them.
    done: AtomicU64,
    total: AtomicU64,
}

/// Receiver of the bytes of a range, piece by piece.
pub(crate) type Take<'t> = &'t mut (dyn FnMut(&[u8]) -> Result<(), PullError> + Send);

impl<'a> Fetcher<'a> {
    pub(crate) fn new(origin: &'a Origin, options: &'a PullOptions) -> Self {
        Self {
            origin,
            options,
            pace: options.bytes_per_second.map(Pace::new),
            connections: Semaphore::new(options.connections.get()),
            requests: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of files so far.
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Sets the number of bytes that the pull has to do.
    pub(crate) fn set_total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of the pull as done.
    pub(crate) fn count_done(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(progress) = &self.options.progress {
            let total = self.total.load(Ordering::Relaxed);
            progress.report(Progress::new(done.min(total), total));
        }
    }

    /// The files at the source.
    pub(crate) async fn list(&self, name: &str) -> Result<Listing, PullError> {
        let mut attempts = Attempts::new(name, self.options);
        loop {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let listing = timeout(self.options.stall, self.origin.list()).await;
            match listing.unwrap_or_else(|_| Err(self.silence())) {
                Ok(listing) => return Ok(listing),
                Err(trouble) => attempts.after(trouble, 0).await?,
            }
        }
    }

    /// Digest or checksum of a file that its listing does not have; nothing where the source has none.
    pub(crate) async fn promise(&self, file: &RemoteFile) -> Result<Promise, PullError> {
        if !self.origin.has_promises() {
            return Ok(Promise::default());
        }
        let mut attempts = Attempts::new(&file.address, self.options);
        loop {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let promise = timeout(self.options.stall, self.origin.promise(file)).await;
            match promise.unwrap_or_else(|_| Err(self.silence())) {
                Ok(promise) => return Ok(promise),
                // The file itself may be readable.
                Err(Trouble::Final(error)) => {
                    tracing::debug!(address = file.address, %error, "no checksum is known");
                    return Ok(Promise::default());
                }
                Err(trouble) => attempts.after(trouble, 0).await?,
            }
        }
    }

    /// Writes small files to the source.
    pub(crate) async fn put(&self, name: &str, files: &[SmallFile]) -> Result<(), PullError> {
        let mut attempts = Attempts::new(name, self.options);
        loop {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let put = timeout(LONGEST_PUT, self.origin.put(name, files)).await;
            match put.unwrap_or_else(|_| Err(self.silence())) {
                Ok(()) => return Ok(()),
                Err(trouble) => attempts.after(trouble, 0).await?,
            }
        }
    }

    /// Passes the bytes of `range` to `take`, in order and each once.
    pub(crate) async fn each(
        &self,
        file: &RemoteFile,
        range: Range<u64>,
        take: Take<'_>,
    ) -> Result<(), PullError> {
        let _connection = self.connections.acquire().await;
        let mut attempts = Attempts::new(&file.address, self.options);
        let mut at = range.start;
        while at < range.end {
            let begin = at;
            let end = range.end.min(self.origin.part_end(file, at));
            if let Err(trouble) = self.attempt(file, &mut at, end, take).await {
                attempts.after(trouble, at - begin).await?;
            }
        }
        Ok(())
    }

    /// One request for the bytes from `at` to `end`; moves `at` with what came.
    async fn attempt(
        &self,
        file: &RemoteFile,
        at: &mut u64,
        end: u64,
        take: Take<'_>,
    ) -> Result<(), Trouble> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(self.options.stall, self.origin.open(file, *at..end)).await;
        let mut body = answer.unwrap_or_else(|_| Err(self.silence()))?;
        let mut window = Window::default();
        while *at < end {
            let asked = Instant::now();
            let piece = timeout(self.options.stall, body.next()).await;
            let Some(piece) = piece.unwrap_or_else(|_| Some(Err(self.silence()))) else {
                let reason = format!("the answer ended {} bytes too early", end - *at);
                return Err(Trouble::passing(reason));
            };
            let piece = piece?;
            let len = piece.len() as u64;
            if len > end - *at {
                return Err(Trouble::passing(
                    "the answer has more bytes than were asked for",
                ));
            }
            take(&piece)?;
            *at += len;
            self.fetched.fetch_add(len, Ordering::Relaxed);
            if !window.add(len, asked.elapsed(), self.options.stall) {
                let reason = format!("less than {LEAST_RATE} bytes per second came");
                return Err(Trouble::passing(reason));
            }
            if let Some(pace) = &self.pace {
                pace.pay(piece.len()).await;
            }
        }
        Ok(())
    }

    fn silence(&self) -> Trouble {
        let seconds = self.options.stall.as_secs_f32();
        Trouble::passing(format!("nothing came for {seconds} s"))
    }

    /// The bytes of a range, which the caller knows to be short.
    pub(crate) async fn bytes(
        &self,
        file: &RemoteFile,
        range: Range<u64>,
    ) -> Result<Vec<u8>, PullError> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let mut take = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        self.each(file, range, &mut take).await?;
        Ok(bytes)
    }

    /// The bytes of all `ranges`, which ascend, over all connections; those that lie close together as
    /// one. Returns them with their offsets.
    pub(crate) async fn parts(
        &self,
        file: &RemoteFile,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<Vec<(u64, Vec<u8>)>, PullError> {
        let parts = joined(ranges).into_iter().map(|range| async move {
            let begin = range.start;
            Ok((begin, self.bytes(file, range).await?))
        });
        let parts = stream::iter(parts).buffer_unordered(self.options.connections.get());
        parts.try_collect().await
    }
}

/// `ranges`, with those that lie close together as one.
fn joined(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last)
                if (last.start..=last.end + GAP).contains(&range.start)
                    && range.end.max(last.end) - last.start <= JOINED =>
            {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Bytes of a range and the time spent waiting for them.
#[derive(Debug, Default)]
struct Window {
    bytes: u64,
    waited: Duration,
}

impl Window {
    /// Counts bytes; returns false when too few came over `length` of waiting.
    fn add(&mut self, bytes: u64, waited: Duration, length: Duration) -> bool {
        self.bytes += bytes;
        self.waited += waited;
        if self.waited < length {
            return true;
        }
        let enough = self.bytes as f64 >= LEAST_RATE as f64 * self.waited.as_secs_f64();
        *self = Self::default();
        enough
    }
}

/// Attempts at one range, listing or upload.
pub(crate) struct Attempts<'a> {
    address: &'a str,
    most: u32,
    /// Attempts in a row without progress.
    count: u32,
    progress: u64,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(address: &'a str, options: &PullOptions) -> Self {
        Self {
            address,
            most: options.attempts.max(1),
            count: 0,
            progress: 0,
        }
    }

    /// Waits before another attempt, after one that brought `bytes`.
    ///
    /// # Errors
    /// When there is no other attempt.
    pub(crate) async fn after(&mut self, trouble: Trouble, bytes: u64) -> Result<(), PullError> {
        let (reason, asked) = match trouble {
            Trouble::Final(error) => return Err(error),
            Trouble::Passing { reason, after } => (reason, after),
        };
        self.progress += bytes;
        if self.progress >= PROGRESS {
            (self.count, self.progress) = (0, 0);
        }
        self.count += 1;
        let address = || self.address.to_owned();
        if self.count >= self.most {
            return Err(PullError::GaveUp {
                address: address(),
                attempts: self.count,
                reason,
            });
        }
        if let Some(wait) = asked.filter(|wait| *wait > LONGEST_ASKED) {
            return Err(PullError::Busy {
                address: address(),
                wait,
            });
        }
        let doubled = FIRST_WAIT.saturating_mul(1 << (self.count - 1).min(16));
        let spread = rand::rng().random_range(0.5..1.5);
        let wait = doubled
            .min(LONGEST_WAIT)
            .mul_f64(spread)
            .max(asked.unwrap_or_default());
        tracing::debug!(
            address = self.address,
            reason,
            ?wait,
            "another attempt follows"
        );
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_lie_close_are_fetched_as_one() {
        let ranges = [
            0..10,
            10..20,
            20 + GAP..30 + GAP,
            (1 << 20)..(2 << 20),
            (2 << 20)..(9 << 20),
        ];
        let joined = joined(ranges);
        assert_eq!(
            joined,
            [0..30 + GAP, (1 << 20)..(2 << 20), (2 << 20)..(9 << 20)]
        );
    }

    #[test]
    fn a_trickle_is_noticed_and_waiting_for_the_limit_is_not_one() {
        let length = Duration::from_secs(30);
        let mut window = Window::default();
        assert!(window.add(1, Duration::from_secs(29), length));
        assert!(!window.add(1, Duration::from_secs(2), length));
        assert!(window.add(LEAST_RATE * 31, Duration::from_secs(31), length));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_unless_there_is_progress() {
        let options = PullOptions::default();
        let mut attempts = Attempts::new("s3://b/x", &options);
        for _ in 0..100 {
            attempts
                .after(Trouble::passing("broken"), PROGRESS)
                .await
                .unwrap();
        }
        let mut left = 0;
        let error = loop {
            match attempts.after(Trouble::passing("broken"), 1).await {
                Ok(()) => left += 1,
                Err(error) => break error,
            }
        };
        assert!(left < options.attempts, "{left}");
        assert!(matches!(error, PullError::GaveUp { .. }), "{error}");
        let wait = Trouble::Passing {
            reason: "busy".to_owned(),
            after: Some(Duration::from_hours(1)),
        };
        let mut attempts = Attempts::new("s3://b/x", &options);
        assert!(matches!(
            attempts.after(wait, 0).await,
            Err(PullError::Busy { .. })
        ));
    }
}
