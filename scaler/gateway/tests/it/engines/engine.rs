//! A scripted engine with vLLM's paths of sleep.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use crate::port::Port;
use crate::server::{Gate, Server};

/// Reaction to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obeys {
    AtOnce,
    /// Once its gate is open.
    Gated,
    /// Answers with the status 500.
    Refuses,
    Never,
}

/// Reaction to requests of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    AtOnce,
    /// Once its gate is open.
    Gated,
    /// A stream without an end, of a part now and then.
    Endless,
    /// The same, as fast as it is read.
    Flood,
}

/// Behavior of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Behavior {
    pub asleep: bool,
    pub sleeps: Obeys,
    pub wakes: Obeys,
    pub answers: Answers,
    /// False for an engine without the paths of sleep.
    pub has_paths: bool,
    /// False for one that never answers the question for its state.
    pub answers_questions: bool,
}

pub const ASLEEP: Behavior = Behavior {
    asleep: true,
    sleeps: Obeys::AtOnce,
    wakes: Obeys::AtOnce,
    answers: Answers::AtOnce,
    has_paths: true,
    answers_questions: true,
};

pub const AWAKE: Behavior = Behavior {
    asleep: false,
    ..ASLEEP
};

pub struct Engine {
    pub address: SocketAddr,
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    behavior: Behavior,
    asleep: AtomicBool,
    /// Orders, in their order.
    orders: Mutex<Vec<String>>,
    /// Requests that came while it slept.
    disturbed: AtomicUsize,
    served: AtomicUsize,
    orders_gate: Gate,
    answers_gate: Gate,
}

impl Engine {
    pub fn start(name: &'static str, behavior: Behavior) -> Self {
        Self::on(Port::take(), name, behavior)
    }

    pub fn on(port: Port, name: &'static str, behavior: Behavior) -> Self {
        let shared = Arc::new(Shared {
            name,
            behavior,
            asleep: AtomicBool::new(behavior.asleep),
            orders: Mutex::default(),
            disturbed: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            orders_gate: Gate::new(false),
            answers_gate: Gate::new(false),
        });
        let serving = Arc::clone(&shared);
        let server = Server::start(port, move |request| answer(Arc::clone(&serving), request));
        Self {
            address: server.address(),
            server,
            shared,
        }
    }

    /// Ends it as a kill does.
    pub async fn kill(self) -> Port {
        self.server.kill().await
    }

    /// Orders that it got. Fails if it got a request while it slept.
    pub fn orders(&self) -> Vec<String> {
        assert_eq!(self.shared.disturbed.load(Ordering::SeqCst), 0, "asleep");
        self.shared.orders.lock().unwrap().clone()
    }

    /// Waits until it has got as many orders.
    pub async fn ordered(&self, count: usize) {
        while self.shared.orders.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until as many requests of clients have come.
    pub async fn served(&self, count: usize) {
        while self.shared.served.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn open_orders(&self) {
        self.shared.orders_gate.open();
    }

    pub fn open_answers(&self) {
        self.shared.answers_gate.open();
    }

    pub fn is_asleep(&self) -> bool {
        self.shared.asleep.load(Ordering::SeqCst)
    }
}

type Answer = Response<BoxBody<Bytes, std::io::Error>>;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    let path = request.uri().path_and_query().unwrap().to_string();
    let body = request.into_body().collect().await;
    let body = body.map_err(std::io::Error::other)?.to_bytes();
    let behavior = shared.behavior;
    let of_sleep = ["/is_sleeping", "/sleep", "/wake_up", "/collective_rpc"];
    if of_sleep.iter().any(|of| path.starts_with(of)) {
        if !behavior.has_paths {
            return Ok(text(
                StatusCode::NOT_FOUND,
                "{\"detail\": \"Not Found\"}".to_owned(),
            ));
        }
        if path == "/is_sleeping" {
            if !behavior.answers_questions {
                std::future::pending::<()>().await;
            }
            let asleep = shared.asleep.load(Ordering::SeqCst);
            return Ok(text(
                StatusCode::OK,
                format!("{{\"is_sleeping\": {asleep}}}"),
            ));
        }
        let text_of = String::from_utf8_lossy(&body);
        let order = format!("{path} {text_of}").trim_end().to_owned();
        shared.orders.lock().unwrap().push(order);
        let sleeps = path.starts_with("/sleep");
        let obeys = if sleeps {
            behavior.sleeps
        } else {
            behavior.wakes
        };
        match obeys {
            Obeys::AtOnce => {}
            Obeys::Gated => shared.orders_gate.pass().await,
            Obeys::Refuses => {
                return Ok(text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "CUDA out of memory".to_owned(),
                ));
            }
            Obeys::Never => std::future::pending().await,
        }
        shared.asleep.store(sleeps, Ordering::SeqCst);
        return Ok(text(StatusCode::OK, String::new()));
    }
    if shared.asleep.load(Ordering::SeqCst) {
        shared.disturbed.fetch_add(1, Ordering::SeqCst);
    }
    shared.served.fetch_add(1, Ordering::SeqCst);
    match behavior.answers {
        Answers::AtOnce => {}
        Answers::Gated => shared.answers_gate.pass().await,
        Answers::Endless | Answers::Flood => {
            let floods = behavior.answers == Answers::Flood;
            let size = if floods { 64 << 10 } else { 16 };
            let (mut sender, channel) = Channel::<Bytes, std::io::Error>::new(1);
            tokio::spawn(async move {
                let part = Bytes::from(vec![b' '; size]);
                while sender.send_data(part.clone()).await.is_ok() {
                    if !floods {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            });
            return Ok(Response::new(channel.boxed()));
        }
    }
    Ok(text(StatusCode::OK, format!("{} {path}", shared.name)))
}

fn text(status: StatusCode, text: String) -> Answer {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    Response::builder()
        .status(status)
        .body(body.boxed())
        .unwrap()
}
