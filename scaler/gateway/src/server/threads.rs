//! Threads that serve clients, each with its own runtime: a request, its client's connection and
//! its instance's stay on one thread, which costs less than to wake others.

use std::io;
use std::num::NonZero;
use std::thread;

use tetris_service_kit::shutdown::until;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use super::{Serving, serve};
use crate::memory::most_threads;
use crate::pool::number_thread;

/// Serves on as many threads as the process has processors, or fewer where memory is short, until `stopped` and the end of all
/// requests.
///
/// # Errors
///
/// Fails if a thread cannot be started.
pub(crate) async fn serve_on_threads(
    listener: TcpListener,
    serving: Serving,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = listener.into_std()?;
    let count = thread::available_parallelism().map_or(1, NonZero::get);
    let count = count.min(most_threads(tetris_conventions::cgroup::memory_limit()));
    let (ended, mut ends) = mpsc::unbounded_channel();
    for number in 0..count {
        // All accept from one socket: another gateway at the same address is still an error.
        let listener = listener.try_clone()?;
        let (serving, stopped) = (serving.clone(), stopped.clone());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let ended = ended.clone();
        let work = move || {
            number_thread(number);
            let served = runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                serve(listener, serving, until(stopped)).await;
                io::Result::Ok(())
            });
            // Without a receiver no one waits for the end.
            drop(ended.send(served));
        };
        let name = format!("clients-{number}");
        drop(thread::Builder::new().name(name).spawn(work)?);
    }
    drop(listener);
    drop(ended);
    for _ in 0..count {
        let panicked = || io::Error::other("a thread that serves clients has panicked");
        ends.recv().await.ok_or_else(panicked)??;
    }
    Ok(())
}
