//! Clients that do not read, and instances that do not end: both hold an instance for no longer than they may.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::client::{infer, send, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

/// A gateway whose clients may fall behind for a moment alone, while its instances may pause for as long as they like.
async fn gateway(instance: &Instance) -> Gateway {
    let text = format!(
        "[timeouts]\nread = \"200ms\"\nidle = \"1h\"\n[limits]\nrate = \"100MiB\"\n{}",
        function("embed", "hosts = [\"embed\"]", &[instance.address], 1)
    );
    Gateway::start(&text).await
}

/// Waits until the request that an instance has is gone, from there and from the gateway.
async fn is_given_back(gateway: &Gateway, instance: &Instance) {
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
        .await;
    while instance.here() > 0 {
        tokio::task::yield_now().await;
    }
}

/// Connects with a small buffer for what comes.
async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.connect(address).await.unwrap()
}

/// Asks by HTTP/2, with a window of `window` bytes for each response, which is never opened further.
async fn ask_http2(address: SocketAddr, window: u32, kind: &str) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://embed/inference.GRPCInferenceService/ModelInfer")
        .header("content-type", kind)
        .body(Full::<Bytes>::default())
        .unwrap();
    sender.send_request(request).await.unwrap()
}

#[tokio::test]
async fn a_client_by_http1_that_reads_nothing_holds_no_instance() {
    let instance = Instance::start("flood", Mode::Flood);
    let gateway = gateway(&instance).await;
    let mut client = connect(gateway.address).await;
    client
        .write_all(b"GET /functions/embed/x HTTP/1.1\r\nhost: g\r\n\r\n")
        .await
        .unwrap();
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    is_given_back(&gateway, &instance).await;
    // Its connection has ended as well, within the response.
    let mut rest = Vec::new();
    drop(client.read_to_end(&mut rest).await);
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn a_client_by_http2_with_a_closed_window_holds_no_instance() {
    for kind in ["application/json", "application/grpc"] {
        for window in [0, 1_000] {
            let instance = Instance::start("flood", Mode::Flood);
            let gateway = gateway(&instance).await;
            let response = ask_http2(gateway.address, window, kind).await;
            // What the client does not take from hyper keeps its window closed.
            is_given_back(&gateway, &instance).await;
            let collected = response.into_body().collect().await;
            assert!(collected.is_err(), "{kind}: the stream is reset");
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_cut_off() {
    let instance = Instance::start("flood", Mode::Flood);
    let gateway = gateway(&instance).await;
    let mut slow = connect(gateway.address).await;
    slow.write_all(b"GET /functions/embed/x HTTP/1.1\r\nhost: g\r\n\r\n")
        .await
        .unwrap();
    let reading = tokio::spawn(async move {
        let mut part = [0; 100];
        while !matches!(slow.read(&mut part).await, Ok(0) | Err(_)) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    is_given_back(&gateway, &instance).await;
    // The kernel may still have some for it.
    reading.abort();
}

#[tokio::test]
async fn time_in_which_an_instance_sends_nothing_is_not_its_clients() {
    let instance = Instance::start("stream", Mode::Stream);
    let gateway = gateway(&instance).await;
    for http2 in [false, true] {
        let response = if http2 {
            ask_http2(gateway.address, 1 << 20, "application/json").await
        } else {
            send(gateway.address, infer("embed")).await.unwrap()
        };
        let reading = tokio::spawn(whole(response));
        // Longer than a client may fall behind.
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        instance.open();
        assert_eq!(reading.await.unwrap().body, "firstsecond");
    }
}

#[tokio::test]
async fn an_instance_that_trickles_keeps_no_request_for_ever() {
    let instance = Instance::start("trickle", Mode::Trickle);
    let text = format!(
        "[timeouts]\nrequest = \"300ms\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let response = send(gateway.address, infer("embed")).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    is_given_back(&gateway, &instance).await;
}

#[tokio::test]
async fn answers_of_the_gateway_itself_are_not_kept_for_a_closed_window() {
    let instance = Instance::start("one", Mode::Answer);
    let gateway = gateway(&instance).await;
    let response = ask_http2(gateway.address, 0, "application/json").await;
    drop(response);
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://other/x").body(Full::<Bytes>::default());
    let response = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!(response.status().as_u16(), 404);
    assert!(response.into_body().collect().await.is_err(), "reset");
}
