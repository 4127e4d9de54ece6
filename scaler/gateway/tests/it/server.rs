//! Servers of tests: their connections, the requests that are there, and a gate that holds them.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::port::Port;

/// A server at its own port.
pub struct Server {
    port: Port,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers requests over HTTP/1 and HTTP/2. An error closes the connection.
    pub fn start<A, F, B, E>(port: Port, answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<Response<B>, E>> + Send + 'static,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let listener = port.listen();
        let task = tokio::spawn(async move {
            // Dropped with the task: its connections end as a killed process's do.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let service = service_fn(answer.clone());
                connections.spawn(async move {
                    let served = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .into_owned();
                    drop(served.await);
                });
            }
        });
        Self { port, task }
    }

    pub const fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// Ends it with all its connections, as a kill does. Returns its port.
    pub async fn kill(self) -> Port {
        self.task.abort();
        drop(self.task.await);
        self.port
    }
}

/// Counts requests that are at a server.
#[derive(Default)]
pub struct Count {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Count {
    /// Counts a request until the result is dropped.
    pub fn enter(self: &Arc<Self>) -> Counted {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Counted(Arc::clone(self))
    }

    /// Number of requests that are there.
    pub fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    /// Largest number of requests at a time.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A counted request.
pub struct Counted(Arc<Count>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Holds requests while it is closed.
pub struct Gate(watch::Sender<bool>);

impl Gate {
    pub fn new(open: bool) -> Self {
        Self(watch::channel(open).0)
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub fn close(&self) {
        self.0.send_replace(false);
    }

    /// Waits until it is open.
    pub async fn pass(&self) {
        let mut opened = self.0.subscribe();
        opened.wait_for(|open| *open).await.unwrap();
    }
}
