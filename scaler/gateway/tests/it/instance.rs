//! An instance whose behavior a test chooses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A request that came to an instance.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Behavior of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers with its name.
    Answer,
    /// Answers once [`Instance::open`] is called.
    Hold,
    /// Closes the connection instead of an answer.
    Break,
    /// Answers with the status 503.
    Unavailable,
    /// Sends `first`, and `second` once opened.
    Stream,
}

pub struct Instance {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    name: &'static str,
    mode: Mode,
    seen: Mutex<Vec<Seen>>,
    now: AtomicUsize,
    most: AtomicUsize,
    opened: watch::Sender<bool>,
}

impl Instance {
    pub async fn start(name: &'static str, mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, name, mode)
    }

    pub fn on(listener: TcpListener, name: &'static str, mode: Mode) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            name,
            mode,
            seen: Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            opened: watch::channel(false).0,
        });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&serving);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    let served = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .into_owned();
                    drop(served.await);
                });
            }
        });
        Self {
            address,
            shared,
            task,
        }
    }

    /// Ends it with all its connections, as a kill does.
    pub fn kill(self) {
        self.task.abort();
    }

    pub fn open(&self) {
        self.shared.opened.send_replace(true);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Largest number of requests at a time.
    pub fn most(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }
}

type Answer = Response<BoxBody<Bytes, std::io::Error>>;

struct AtOnce(Arc<Shared>);

impl Drop for AtOnce {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    let now = shared.now.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most.fetch_max(now, Ordering::SeqCst);
    let at_once = AtOnce(Arc::clone(&shared));
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(std::io::Error::other)?
        .to_bytes();
    let grpc = parts
        .headers
        .get("content-type")
        .is_some_and(|kind| kind == "application/grpc");
    shared.seen.lock().unwrap().push(Seen {
        path: parts.uri.path_and_query().unwrap().to_string(),
        headers: parts.headers,
        body: body.clone(),
    });
    let mode = shared.mode;
    let mut opened = shared.opened.subscribe();
    match mode {
        Mode::Answer if grpc => {
            let (mut sender, channel) = Channel::<Bytes, Infallible>::new(4);
            tokio::spawn(async move {
                sender.send_data(body).await.unwrap();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", "0".parse().unwrap());
                sender.send(Frame::trailers(trailers)).await.unwrap();
            });
            let body = channel.map_err(|never| match never {}).boxed();
            Ok(Response::builder()
                .header("content-type", "application/grpc")
                .body(body)
                .unwrap())
        }
        Mode::Answer => Ok(text(StatusCode::OK, shared.name)),
        Mode::Hold => {
            opened.wait_for(|open| *open).await.unwrap();
            drop(at_once);
            Ok(text(StatusCode::OK, shared.name))
        }
        Mode::Break => Err(std::io::Error::other("as told")),
        Mode::Unavailable => Ok(text(StatusCode::SERVICE_UNAVAILABLE, shared.name)),
        Mode::Stream => {
            let (mut sender, channel) = Channel::<Bytes, std::io::Error>::new(4);
            tokio::spawn(async move {
                let _at_once = at_once;
                drop(sender.send_data(Bytes::from_static(b"first")).await);
                opened.wait_for(|open| *open).await.unwrap();
                drop(sender.send_data(Bytes::from_static(b"second")).await);
            });
            Ok(Response::new(channel.boxed()))
        }
    }
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    let body = Full::new(Bytes::from_static(text.as_bytes()))
        .map_err(|never| match never {})
        .boxed();
    Response::builder().status(status).body(body).unwrap()
}
