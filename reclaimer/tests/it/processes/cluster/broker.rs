//! A broker: its socket, with the daemon's own pages or with anything else behind it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use tempfile::TempDir;
use tetris_node::http::PageSource as _;
use tetris_node::processes::cluster::{FetchedPages, PageLimits, Reports};
use tetris_service_kit::http::ConnectionLimits;
use tetris_service_kit::unix_http::{listen, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// For limits that must not be what ends a test.
const LONG: Duration = Duration::from_mins(5);

/// The place of the broker's socket.
pub struct Broker {
    _dir: TempDir,
    pub socket: PathBuf,
    /// Number of requests that have come.
    pub asked: Arc<AtomicUsize>,
}

impl Broker {
    /// A broker that is away.
    pub fn away() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            socket: dir.path().join("socket"),
            _dir: dir,
            asked: Arc::default(),
        }
    }

    /// A broker with these pages.
    pub fn serving(router: Router) -> Self {
        let broker = Self::away();
        broker.serve(router);
        broker
    }

    /// Serves these pages until the task is aborted.
    pub fn serve(&self, router: Router) -> JoinHandle<()> {
        serve_at(&self.socket, router, Arc::clone(&self.asked))
    }

    /// A broker that answers each connection with these bytes, once a request has come, and hangs
    /// up.
    pub fn saying(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::acting(move |mut stream| {
            let bytes = bytes.clone();
            async move {
                let _sent = stream.write_all(&bytes).await;
            }
        })
    }

    /// A broker that takes connections and requests, and never answers. It sends `bytes` first.
    pub fn hanging_after(bytes: &'static [u8]) -> Self {
        Self::acting(move |mut stream| async move {
            let _sent = stream.write_all(bytes).await;
            std::future::pending::<()>().await;
        })
    }

    fn acting<F>(act: impl Fn(UnixStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let broker = Self::away();
        let (listener, act) = (UnixListener::bind(&broker.socket).unwrap(), Arc::new(act));
        let asked = Arc::clone(&broker.asked);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (act, asked) = (Arc::clone(&act), Arc::clone(&asked));
                tokio::spawn(async move {
                    let _asked = stream.read(&mut [0; 4096]).await;
                    asked.fetch_add(1, Ordering::SeqCst);
                    act(stream).await;
                });
            }
        });
        broker
    }

    /// Pages of this broker, with limits of time that no test reaches.
    pub fn pages(&self) -> FetchedPages {
        self.pages_with(PageLimits {
            page: LONG,
            probe: LONG,
            ..PageLimits::default()
        })
    }

    pub fn pages_with(&self, limits: PageLimits) -> FetchedPages {
        let reports = Arc::new(Reports::new(false, false));
        FetchedPages::new(&self.socket, reports, limits)
    }

    /// Router of all its pages.
    pub fn all(&self) -> Router {
        self.pages().all()
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Serves these pages at a socket, and counts the requests.
fn serve_at(socket: &Path, router: Router, asked: Arc<AtomicUsize>) -> JoinHandle<()> {
    let count = move |request: Request, next: Next| {
        asked.fetch_add(1, Ordering::SeqCst);
        next.run(request)
    };
    let listener = listen(socket).unwrap();
    let router = router.layer(from_fn(count));
    let limits = ConnectionLimits::default();
    tokio::spawn(serve(listener, router, limits, std::future::pending()))
}
