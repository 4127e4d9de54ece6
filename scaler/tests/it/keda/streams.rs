//! Tests of streams.

use std::net::Ipv4Addr;
use std::time::Duration;

use tetris_hostile::clients::connect;
use tetris_hostile::frames::{END_HEADERS, HEADERS, POST, frame, head, preface};
use tetris_scaler::keda::KedaLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::keda::bytes::{double, number, of, text};
use crate::keda::client::{Server, next};
use crate::keda::snapshots::{empty, undecided, with};

const CONFIGURATION: &str = "c4000-b4-p2";

#[tokio::test]
async fn activity_is_pushed_at_once_and_when_it_changes() {
    let server = Server::start(with(0), KedaLimits::default()).await;
    let reference = of("bert", CONFIGURATION);
    let mut stream = server.open("StreamIsActive", reference).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap(), Some(Vec::new()));
    server.publish(with(3));
    assert_eq!(next(&mut stream).await.unwrap(), Some(number(1, 1)));
    // More instances do not change the activity.
    server.publish(with(4));
    server.publish(with(0));
    assert_eq!(next(&mut stream).await.unwrap(), Some(Vec::new()));
}

#[tokio::test]
async fn a_stream_waits_for_the_first_decision() {
    let server = Server::start(undecided(), KedaLimits::default()).await;
    let reference = of("bert", CONFIGURATION);
    let mut stream = server.open("StreamIsActive", reference).await.unwrap();
    server.publish(with(1));
    assert_eq!(next(&mut stream).await.unwrap(), Some(number(1, 1)));
}

#[tokio::test]
async fn a_stream_ends_with_an_error_when_its_function_goes() {
    let server = Server::start(with(1), KedaLimits::default()).await;
    let reference = of("bert", CONFIGURATION);
    let mut stream = server.open("StreamIsActive", reference).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap(), Some(number(1, 1)));
    server.publish(empty());
    let error = next(&mut stream).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}

#[tokio::test]
async fn the_metric_is_streamed_once_and_streams_end_with_the_server() {
    let mut server = Server::start(with(1), KedaLimits::default()).await;
    let reference = of("bert", CONFIGURATION);
    let mut metrics = server
        .open("StreamMetricSpec", reference.clone())
        .await
        .unwrap();
    let metric = [text(1, b"tetris-replicas"), number(2, 1), double(3, 1.0)].concat();
    assert_eq!(next(&mut metrics).await.unwrap(), Some(text(1, &metric)));
    let mut activity = server.open("StreamIsActive", reference).await.unwrap();
    assert_eq!(next(&mut activity).await.unwrap(), Some(number(1, 1)));
    server.stop();
    assert_eq!(next(&mut metrics).await.unwrap(), None);
    assert_eq!(next(&mut activity).await.unwrap(), None);
    drop((metrics, activity));
    server.ended().await;
}

#[tokio::test]
async fn streams_are_bounded_and_those_that_end_make_room() {
    let limits = KedaLimits {
        streams: 2,
        ..KedaLimits::default()
    };
    let server = Server::start(with(1), limits).await;
    let open = || server.open("StreamIsActive", of("bert", CONFIGURATION));
    let (first, second) = (open().await.unwrap(), open().await.unwrap());
    let error = open().await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    drop(first);
    let deadline = tokio::time::Instant::now() + crate::keda::client::DEADLINE;
    while open().await.is_err() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "a place stays taken"
        );
        tokio::task::yield_now().await;
    }
    drop(second);
}

#[tokio::test]
async fn streams_and_connections_of_one_address_are_bounded() {
    let limits = KedaLimits {
        streams_per_address: 1,
        connections_per_address: 3,
        ..KedaLimits::default()
    };
    let server = Server::start(with(1), limits).await;
    let open = || server.open("StreamIsActive", of("bert", CONFIGURATION));
    let _first = open().await.unwrap();
    assert_eq!(open().await.unwrap_err().code(), Code::ResourceExhausted);
    let mut closed = 0;
    let mut all = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut [0; 1])).await;
        // The server sends its settings first, to those that are not closed.
        closed += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
        all.push(stream);
    }
    assert!((7..10).contains(&closed), "{closed} of ten");
}

#[tokio::test]
async fn a_connection_without_a_request_ends() {
    let limits = KedaLimits {
        begin: Duration::from_millis(100),
        ..KedaLimits::default()
    };
    let server = Server::start(with(1), limits).await;
    for begin in [&b""[..], b"PRI * HTTP/2.0"] {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(begin).await.unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        drop(
            tokio::time::timeout(crate::keda::client::DEADLINE, read)
                .await
                .expect("it ends"),
        );
    }
}

#[tokio::test]
async fn calls_under_way_of_one_address_are_bounded_and_give_their_places_back() {
    const CALLS: u32 = 4;
    let limits = KedaLimits {
        calls_per_address: CALLS as usize,
        ..KedaLimits::default()
    };
    let server = Server::start(with(1), limits).await;
    let ask = || server.call("IsActive", of("bert", CONFIGURATION));
    ask().await.unwrap();
    // Heads of calls whose messages do not come.
    let mut hostile = connect(Ipv4Addr::LOCALHOST, server.address())
        .await
        .unwrap();
    hostile.write_all(&preface()).await.unwrap();
    for number in 0..CALLS {
        let path = "/externalscaler.ExternalScaler/IsActive";
        let block = head(POST, path, 0, number == 0);
        let bytes = frame(HEADERS, END_HEADERS, number * 2 + 1, &block);
        hostile.write_all(&bytes).await.unwrap();
    }
    let deadline = tokio::time::Instant::now() + crate::keda::client::DEADLINE;
    let is_refused = async |expected: bool| {
        while ask()
            .await
            .is_err_and(|error| error.code() == Code::ResourceExhausted)
            != expected
        {
            assert!(
                tokio::time::Instant::now() < deadline,
                "refused: {expected}"
            );
        }
    };
    is_refused(true).await;
    drop(hostile);
    is_refused(false).await;
}

#[tokio::test]
async fn a_name_that_no_object_can_have_is_refused() {
    let server = Server::start(with(1), KedaLimits::default()).await;
    // A length of two bytes: seven bits of each, the lower ones first.
    let namespace = [&[0x12, 0xfe, 0x01][..], &[b'b'; 254]].concat();
    let reference = [of("bert", CONFIGURATION), namespace].concat();
    let error = server.open("StreamIsActive", reference).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(
        error.message(),
        "expected at most 253 bytes in namespace, found 254"
    );
}
