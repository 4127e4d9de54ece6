//! Instances: servers that run so many requests at a time, each for a fixed time, first come, first
//! served. They compute nothing, so that their speed is known exactly on a machine that the proxies
//! share.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::target::Target;

/// Behavior of an instance.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Number of requests at a time.
    pub slots: usize,
    /// Time of each.
    pub latency: Duration,
}

/// A running instance. It ends when this is dropped.
pub struct Backend {
    pub address: SocketAddr,
    pub work: Work,
    open: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

struct Shared {
    slots: Semaphore,
    work: Work,
    open: watch::Receiver<bool>,
}

impl Backend {
    pub async fn start(work: Work) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (open, opened) = watch::channel(true);
        let shared = Arc::new(Shared {
            slots: Semaphore::new(work.slots),
            work,
            open: opened,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                drop(stream.set_nodelay(true));
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    drop(
                        http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        });
        Ok(Self {
            address,
            work,
            open,
            _tasks: tasks,
        })
    }

    pub fn target(&self) -> Target {
        Target {
            address: self.address,
            batch: 1,
            concurrency: self.work.slots,
            latency_ms: (self.work.latency.as_millis() as u64).max(1),
            batch_wait_ms: 0,
            weight: self.work.slots.min(256),
        }
    }

    /// Lets requests end, or holds them.
    pub fn open(&self, open: bool) {
        self.open.send_replace(open);
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    drop(request.into_body().collect().await);
    let _slot = shared.slots.acquire().await;
    if !shared.work.latency.is_zero() {
        tokio::time::sleep(shared.work.latency).await;
    }
    drop(shared.open.clone().wait_for(|open| *open).await);
    let body = Bytes::from_static(br#"{"model_name":"m","outputs":[{"name":"embedding","shape":[1,4],"datatype":"FP32","data":[0.1,0.2,0.3,0.4]}]}"#);
    Ok(Response::new(Full::new(body)))
}
