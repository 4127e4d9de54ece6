//! Tasks of HTTP/2 streams, each with a limit on the time for which its client takes nothing.
//!
//! hyper does not poll a response's body while the client's window is closed, so a timer in the body would not run. This
//! one is in the task itself, whose end drops the stream, the body, and what it holds of an instance.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::Executor;
use tetris_service_kit::pace::{Pace, Progress};
use tokio::time::{Instant, Sleep, sleep_until};

/// Progress of a client in reading one stream.
#[derive(Debug)]
pub(crate) struct StreamProgress {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    progress: Progress,
    /// Number of bytes that hyper got, and has not asked for more since.
    given: usize,
}

impl StreamProgress {
    pub(crate) fn new(pace: Pace) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                progress: Progress::new(pace),
                given: 0,
            }),
        })
    }

    /// Notes that hyper gets `bytes`. It asks for more once the client's window is open.
    pub(crate) fn gives(&self, bytes: usize) {
        let mut inner = self.lock();
        inner.given = bytes;
        inner.progress.waits(Instant::now().into_std());
    }

    /// Notes that hyper asks for more.
    pub(crate) fn asked(&self) {
        let mut inner = self.lock();
        if inner.progress.overdue_at().is_some() {
            let given = inner.given;
            inner.progress.moved(Instant::now().into_std(), given);
        }
    }

    /// Time at which the client will have taken nothing for too long.
    fn overdue_at(&self) -> Option<Instant> {
        self.lock().progress.overdue_at().map(Instant::from_std)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the tasks of one connection's streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTasks {
    /// Progress of the stream whose task comes next: hyper spawns it as soon as the service has its request.
    next: Arc<Mutex<Option<Arc<StreamProgress>>>>,
}

impl StreamTasks {
    /// Sets the progress of the stream whose task comes next.
    pub(crate) fn next_is(&self, progress: Arc<StreamProgress>) {
        *self.lock() = Some(progress);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<StreamProgress>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, task: F) {
        let next = self.lock().take();
        match next {
            Some(progress) => drop(tokio::spawn(until_overdue(task, progress))),
            None => drop(tokio::spawn(task)),
        }
    }
}

/// Runs a stream's task until it ends, or its client is overdue.
async fn until_overdue(task: impl Future<Output = ()>, progress: Arc<StreamProgress>) {
    let mut task = pin!(task);
    // Few streams ever wait for their client.
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if task.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(end) = progress.overdue_at() else {
            timer = None;
            return Poll::Pending;
        };
        expired(&mut timer, end, cx)
    })
    .await;
}

fn expired(timer: &mut Option<Pin<Box<Sleep>>>, end: Instant, cx: &mut Context<'_>) -> Poll<()> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
    if timer.deadline() != end {
        timer.as_mut().reset(end);
    }
    timer.as_mut().poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const PACE: Pace = Pace {
        grace: Duration::from_secs(10),
        bytes_per_second: 100,
    };

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_once_its_client_takes_nothing_for_too_long() {
        let progress = StreamProgress::new(PACE);
        let began = Instant::now();
        progress.gives(10);
        until_overdue(pending(), Arc::clone(&progress)).await;
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_instance_sends_nothing_is_not_the_clients() {
        let progress = StreamProgress::new(PACE);
        let of_task = Arc::clone(&progress);
        let task = async move {
            for _ in 0..100 {
                of_task.gives(1);
                sleep(PACE.grace / 10_000).await;
                of_task.asked();
                sleep(PACE.grace * 2).await;
            }
        };
        let began = Instant::now();
        until_overdue(task, progress).await;
        assert!(began.elapsed() > PACE.grace * 200, "to its own end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_at_a_time_is_too_slow() {
        let progress = StreamProgress::new(PACE);
        let of_task = Arc::clone(&progress);
        let task = async move {
            loop {
                of_task.gives(1);
                sleep(PACE.grace * 9 / 10).await;
                of_task.asked();
            }
        };
        let began = Instant::now();
        until_overdue(task, progress).await;
        assert!(began.elapsed() < PACE.grace * 2);
    }
}
