//! Instances of functions.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::{Body, Bytes};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Answer to a request.
pub const ANSWER: &str = "one";
/// Length of a piece of an answer without an end, in bytes.
const PIECE: usize = 32 << 10;

/// Two instances, until this is dropped.
pub struct Instances {
    /// Answers each request.
    pub answering: SocketAddr,
    /// Sends answers without an end, as fast as they are taken.
    pub flooding: SocketAddr,
    _runtime: Runtime,
}

impl Instances {
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let answers = Router::new().fallback(|_: Bytes| async { ANSWER });
        let floods = Router::new().fallback(|| async {
            let pieces = std::iter::repeat_with(|| Ok::<_, Infallible>(vec![b'x'; PIECE]));
            Body::from_stream(futures::stream::iter(pieces))
        });
        Self {
            answering: serve(&runtime, answers),
            flooding: serve(&runtime, floods),
            _runtime: runtime,
        }
    }
}

fn serve(runtime: &Runtime, router: Router) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router).await });
    address
}
