//! An instance whose behavior a test chooses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use hyper::body::{Frame, Incoming};
use hyper::{HeaderMap, Request, Response, StatusCode};

use crate::port::Port;
use crate::server::{Count, Counted, Gate, Server};

/// A request that came to an instance.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Pause of [`Mode::Trickle`].
const TRICKLE: Duration = Duration::from_millis(20);

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
    /// Sends a response without an end, as fast as it is taken.
    Flood,
    /// Sends a byte of a response each [`TRICKLE`], without an end.
    Trickle,
}

pub struct Instance {
    pub address: SocketAddr,
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    mode: Mode,
    seen: Mutex<Vec<Seen>>,
    here: Arc<Count>,
    gate: Gate,
}

impl Instance {
    pub fn start(name: &'static str, mode: Mode) -> Self {
        Self::on(Port::take(), name, mode)
    }

    pub fn on(port: Port, name: &'static str, mode: Mode) -> Self {
        let shared = Arc::new(Shared {
            name,
            mode,
            seen: Mutex::default(),
            here: Arc::default(),
            gate: Gate::new(false),
        });
        let serving = Arc::clone(&shared);
        let server = Server::start(port, move |request| answer(Arc::clone(&serving), request));
        Self {
            address: server.address(),
            server,
            shared,
        }
    }

    /// Ends it with all its connections, as a kill does. Returns its port.
    pub async fn kill(self) -> Port {
        self.server.kill().await
    }

    pub fn open(&self) {
        self.shared.gate.open();
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Number of requests that are there.
    pub fn here(&self) -> usize {
        self.shared.here.now()
    }

    /// Largest number of requests at a time.
    pub fn most(&self) -> usize {
        self.shared.here.most()
    }
}

type Answer = Response<BoxBody<Bytes, std::io::Error>>;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    let counted = shared.here.enter();
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
    match shared.mode {
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
            shared.gate.pass().await;
            drop(counted);
            Ok(text(StatusCode::OK, shared.name))
        }
        Mode::Break => Err(std::io::Error::other("as told")),
        Mode::Unavailable => Ok(text(StatusCode::SERVICE_UNAVAILABLE, shared.name)),
        Mode::Flood => Ok(endless(counted, vec![b'x'; 32 << 10], Duration::ZERO)),
        Mode::Trickle => Ok(endless(counted, vec![b'x'], TRICKLE)),
        Mode::Stream => {
            let (mut sender, channel) = Channel::<Bytes, std::io::Error>::new(4);
            tokio::spawn(async move {
                let _counted = counted;
                drop(sender.send_data(Bytes::from_static(b"first")).await);
                shared.gate.pass().await;
                drop(sender.send_data(Bytes::from_static(b"second")).await);
            });
            Ok(Response::new(channel.boxed()))
        }
    }
}

/// A response that ends with its reader alone.
fn endless(counted: Counted, part: Vec<u8>, pause: Duration) -> Answer {
    let (mut sender, channel) = Channel::<Bytes, std::io::Error>::new(1);
    tokio::spawn(async move {
        let _counted = counted;
        let part = Bytes::from(part);
        while sender.send_data(part.clone()).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    });
    Response::new(channel.boxed())
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    let body = Full::new(Bytes::from_static(text.as_bytes()))
        .map_err(|never| match never {})
        .boxed();
    Response::builder().status(status).body(body).unwrap()
}
