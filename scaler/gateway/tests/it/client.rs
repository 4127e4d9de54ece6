//! A client of the gateway.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

/// Sends a request on its own connection, and returns the head of the response.
pub async fn send(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    send_from("127.0.0.1:0", address, request).await
}

/// The same as another client: each address of the loopback is one.
pub async fn send_from(
    from: &str,
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    let stream = connect_from(from, address).await;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// Connects from an address of this machine.
pub async fn connect_from(from: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(from.parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

pub fn infer(function: &str) -> Request<Full<Bytes>> {
    let request =
        Request::post(format!("/functions/{function}/v2/models/m/infer")).header("host", "gateway");
    request.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

/// Sends an inference request to a function, and returns the whole answer.
pub async fn ask(address: SocketAddr, function: &str) -> Answer {
    whole(send(address, infer(function)).await.unwrap()).await
}

pub async fn whole(response: Response<Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// Sends a request by HTTP/2.
pub async fn send_http2(address: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

/// Writes bytes as they are, and returns all that comes back until the gateway closes the
/// connection.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The gateway may close before it has read all.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}
