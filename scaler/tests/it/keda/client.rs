//! A client that sends and receives bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::bytes::{Buf as _, BufMut as _};
use tetris_scaler::keda::{KedaLimits, serve};
use tetris_scaler::state::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Timeout for all operations of these tests.
pub const DEADLINE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut all = vec![0; from.remaining()];
        from.copy_to_slice(&mut all);
        Ok(Some(all))
    }
}

/// A server with its source of snapshots.
pub struct Server {
    address: SocketAddr,
    pub publish: watch::Sender<Arc<Snapshot>>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    pub async fn start(snapshot: Snapshot, limits: KedaLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (publish, published) = watch::channel(Arc::new(snapshot));
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, published, limits, async {
            drop(stopped.await);
        }));
        Self {
            address,
            publish,
            stop: Some(stop),
            serving,
        }
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn publish(&self, snapshot: Snapshot) {
        self.publish.send(Arc::new(snapshot)).unwrap();
    }

    /// Signals the server to stop.
    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has stopped.
    pub async fn ended(self) {
        let ended = tokio::time::timeout(DEADLINE, self.serving).await;
        ended.expect("it ends").unwrap().unwrap();
    }

    async fn client(&self) -> tonic::client::Grpc<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let mut client = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
        client.ready().await.unwrap();
        client
    }

    pub async fn call(&self, method: &str, message: Vec<u8>) -> Result<Vec<u8>, Status> {
        let request = Request::new(message);
        let answer = self.client().await.unary(request, path(method), Raw).await;
        answer.map(tonic::Response::into_inner)
    }

    pub async fn open(&self, method: &str, message: Vec<u8>) -> Result<Streaming<Vec<u8>>, Status> {
        let request = Request::new(message);
        let mut client = self.client().await;
        let answer = client.server_streaming(request, path(method), Raw).await;
        answer.map(tonic::Response::into_inner)
    }
}

fn path(method: &str) -> PathAndQuery {
    let path = format!("/externalscaler.ExternalScaler/{method}");
    path.parse().unwrap()
}

/// Returns the next message, or `None` at the end.
pub async fn next(stream: &mut Streaming<Vec<u8>>) -> Result<Option<Vec<u8>>, Status> {
    let next = tokio::time::timeout(DEADLINE, stream.message()).await;
    next.expect("a message comes")
}
