//! Closed-loop load: a fixed number of clients, each of which sends its next request once it has
//! its answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::latency::{LatencyMicros, MIN_SAMPLES};
use crate::oip::{OipClient, OipError};

/// Number of errors allowed; more are allowed up to a hundredth of the answers.
const ERRORS_ALLOWED: u64 = 5;
/// Number of warm-up answers per client, for connections, lazy initialization and caches.
const WARM_UP_EACH: usize = 3;

/// Length of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Number of requests after which it ends.
    pub(crate) requests: usize,
    /// Time after which it ends, if there are [`MIN_SAMPLES`].
    pub(crate) time: Duration,
    /// Time after which fewer than [`MIN_SAMPLES`] are an error.
    pub(crate) patience: Duration,
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    /// Latency percentiles.
    pub(crate) latency: LatencyMicros,
    /// Number of answered requests.
    pub(crate) requests: u64,
    /// Number of failed requests.
    pub(crate) errors: u64,
    /// Answers per second.
    pub(crate) requests_per_second: f64,
}

/// The reason a measurement failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Too many failed requests.
    #[error("{errors} of {} requests failed, the first with: {first}", errors + answered)]
    Failing {
        /// Number of failed requests.
        errors: u64,
        /// Number of answered requests.
        answered: u64,
        /// First error.
        first: Box<OipError>,
    },
    /// Too few answers in time.
    #[error("found {answered} answers in {} s, expected at least {MIN_SAMPLES}; increase --request-seconds", within.as_secs())]
    Slow {
        /// Number of answers.
        answered: usize,
        /// Time limit.
        within: Duration,
    },
}

/// Records of the clients.
#[derive(Debug, Default)]
struct Book {
    micros: Vec<u64>,
    errors: u64,
    first_error: Option<OipError>,
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    changed: Notify,
}

impl Shared {
    fn with<T>(&self, read: impl FnOnce(&mut Book) -> T) -> T {
        read(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, latency: Duration, answer: Result<(), OipError>) {
        self.with(|book| match answer {
            Ok(()) => book
                .micros
                .push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)),
            Err(error) => {
                book.errors += 1;
                book.first_error.get_or_insert(error);
            }
        });
        self.changed.notify_one();
    }

    /// Waits for `count` answers or until `deadline`. Fails as soon as too many requests have
    /// failed.
    async fn wait_for(&self, count: usize, deadline: Instant) -> Result<usize, LoadError> {
        loop {
            self.check()?;
            let answered = self.with(|book| book.micros.len());
            if answered >= count || Instant::now() >= deadline {
                return Ok(answered);
            }
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(deadline.into()) => {}
            }
        }
    }

    fn check(&self) -> Result<(), LoadError> {
        self.with(|book| {
            let (answered, errors) = (book.micros.len() as u64, book.errors);
            if errors <= ERRORS_ALLOWED.max(answered / 100) {
                return Ok(());
            }
            let first = book.first_error.take().unwrap_or(OipError::Silent);
            Err(LoadError::Failing {
                errors,
                answered,
                first: Box::new(first),
            })
        })
    }
}

/// Sends requests from `clients` concurrent clients, and measures after all of them are warm.
/// Requests in flight at the end do not count: they ran under less load.
pub(crate) async fn drive(
    client: &OipClient,
    bodies: &Arc<Vec<Vec<u8>>>,
    clients: u32,
    amount: Amount,
) -> Result<Seen, LoadError> {
    let shared = Arc::new(Shared::default());
    // Dropping the set aborts all tasks, when this function returns or is dropped.
    let mut tasks = JoinSet::new();
    for first in 0..clients as usize {
        let (client, bodies, shared) = (client.clone(), Arc::clone(bodies), Arc::clone(&shared));
        tasks.spawn(async move { ask_forever(&client, &bodies, first, &shared).await });
    }
    let patience = Instant::now() + amount.patience;
    shared
        .wait_for(WARM_UP_EACH * clients as usize, patience)
        .await?;
    shared.with(|book| *book = Book::default());
    let start = Instant::now();
    let answered = shared
        .wait_for(amount.requests.max(MIN_SAMPLES), start + amount.time)
        .await?;
    if answered < MIN_SAMPLES {
        shared
            .wait_for(MIN_SAMPLES, start + amount.patience)
            .await?;
    }
    finish(&shared, start.elapsed(), amount.patience)
}

fn finish(shared: &Shared, elapsed: Duration, patience: Duration) -> Result<Seen, LoadError> {
    let (mut micros, errors) = shared.with(|book| (std::mem::take(&mut book.micros), book.errors));
    let answered = micros.len();
    let slow = LoadError::Slow {
        answered,
        within: patience,
    };
    if answered < MIN_SAMPLES {
        return Err(slow);
    }
    Ok(Seen {
        latency: LatencyMicros::of(&mut micros).ok_or(slow)?,
        requests: answered as u64,
        errors,
        requests_per_second: answered as f64 / elapsed.as_secs_f64().max(1e-6),
    })
}

async fn ask_forever(client: &OipClient, bodies: &[Vec<u8>], first: usize, shared: &Shared) {
    for body in bodies.iter().cycle().skip(first % bodies.len().max(1)) {
        let start = Instant::now();
        let answer = client.infer(body).await.map(drop);
        let failed = answer.is_err();
        shared.note(start.elapsed(), answer);
        if failed {
            // Without a pause, a server that refuses at once would get thousands of requests per
            // second.
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_errors_are_allowed_and_no_more_than_a_hundredth() {
        let shared = Shared::default();
        let fail = || shared.note(Duration::ZERO, Err(OipError::Silent));
        for _ in 0..ERRORS_ALLOWED {
            fail();
        }
        assert!(shared.check().is_ok());
        fail();
        let error = shared.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "6 of 6 requests failed, the first with: no answer yet"
        );
        for _ in 0..600 {
            shared.note(Duration::from_micros(10), Ok(()));
        }
        assert!(shared.check().is_ok());
    }

    #[test]
    fn too_few_answers_are_an_error() {
        let shared = Shared::default();
        shared.note(Duration::from_micros(10), Ok(()));
        let error = finish(&shared, Duration::from_secs(1), Duration::from_secs(9)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "found 1 answers in 9 s, expected at least 20; increase --request-seconds"
        );
    }
}
