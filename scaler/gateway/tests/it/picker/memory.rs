//! Memory that a data plane can make the gateway hold.

use bytes::Bytes;
use tetris_gateway::picker::wire::{BodyMode, HttpHeaders, Part};

use super::data_plane::{Stream, head, head_with, headers, send_raw, subset};
use super::picking::address;
use crate::gateway::{Gateway, function};
use crate::replica::{Replica, free_address};

const PATH: &str = "/functions/embed/x";
/// Memory that a few messages may take: buffers of sockets and frames, and pages that the C library keeps.
const SOME: u64 = 24 << 20;

async fn start(more: &str) -> Gateway {
    let function = function("embed", "", &[address(1)], 1);
    Gateway::start(&format!("{more}\n{function}")).await
}

async fn open(gateway: &Gateway) -> Stream {
    Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await
}

/// A message with a head of empty fields, each of two bytes.
fn empty_fields(count: usize) -> Bytes {
    let field = |number: u8, content: &[u8]| {
        let mut bytes = vec![number << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut bytes);
        bytes.extend(content);
        bytes
    };
    let map = [0x0a, 0].repeat(count);
    field(2, &field(1, &map)).into()
}

#[tokio::test]
async fn a_message_of_empty_fields_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, function("embed", "", &[address(1)], 1)).unwrap();
    let gateway = Replica::start(&path, free_address(), free_address());
    gateway.ready().await;
    let mut warm = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    warm.picked(PATH).await;
    let before = gateway.most_resident();
    for fields in [30 << 10, 4_300_000] {
        let mut answers = send_raw(gateway.picker, empty_fields(fields)).await;
        // It is refused, and its bytes are not read.
        while let Ok(Some(_)) = answers.message().await {}
    }
    let after = gateway.most_resident();
    assert!(after < before + SOME, "{after} bytes, {before} before");
    let mut next = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    next.send(head(PATH, true)).await;
}

/// Bytes that the gateway has charged to clients for heads and connections.
async fn charged(gateway: &Replica) -> u64 {
    let page = gateway.page("/metrics").await;
    let series = "tetris_gateway_memory_bytes{budget=\"heads\"} ";
    let value = page.lines().find_map(|line| line.strip_prefix(series));
    value.unwrap().parse().unwrap()
}

#[tokio::test]
async fn streams_take_no_more_memory_than_is_charged_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    let function = function("embed", "", &[address(1)], 4_000);
    std::fs::write(&path, format!("[limits]\nconnections = 10000\n{function}")).unwrap();
    let gateway = Replica::start(&path, free_address(), free_address());
    gateway.ready().await;
    let (mut streams, mut figures) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let mut opened = Stream::try_open_many(gateway.picker, 250).await.unwrap();
        for stream in &mut opened {
            stream.picked(PATH).await;
        }
        streams.extend(opened);
        figures.push((gateway.resident(), charged(&gateway).await));
    }
    // Without the parts of a process that come with its first streams.
    let [(before, charged_before), (after, charged_after)] = [figures[0], figures[7]];
    let (grown, charged) = (after - before, charged_after - charged_before);
    assert!(grown <= charged, "{grown} bytes, {charged} charged");
}

#[tokio::test]
async fn a_head_of_too_many_fields_or_bytes_is_answered() {
    let gateway = start("[limits]\nhead = \"16KiB\"\nheaders = 50").await;
    let many = vec![("a", "b"); 48];
    let long = "x".repeat(16 << 10);
    for (more, message) in [
        (&many[..], "the head has 51 header fields, expected 50"),
        (
            &[("a", &long)],
            "bytes, expected 16384 at most (limits.head)",
        ),
    ] {
        let head = head_with(PATH, true, more);
        let refused = open(&gateway).await.refused(head, None).await;
        assert_eq!(refused.status.unwrap().code, 431);
        let body = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(body.contains(message), "{body}");
    }
    let metrics = gateway.page("/metrics").await;
    for reason in ["head-fields", "head-size"] {
        let line = format!("tetris_gateway_picks_refused_total{{reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    // A head of a response has the same number.
    let mut stream = open(&gateway).await;
    stream.picked(PATH).await;
    let head = HttpHeaders {
        headers: Some(headers(&[("a", "b"); 51])),
        end_of_stream: false,
    };
    stream.send(Part::ResponseHeaders(head)).await;
    let status = stream.next().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    let mut next = open(&gateway).await;
    assert_eq!(next.picked(PATH).await, address(1), "its slot is free");
}

#[tokio::test]
async fn metadata_of_too_many_values_is_refused() {
    let gateway = start("").await;
    for (count, is_picked) in [(1_000, true), (1_024, false)] {
        let all = vec![address(1); count];
        let mut stream = open(&gateway).await;
        stream.send_with(head(PATH, true), Some(subset(&all))).await;
        match stream.next().await {
            Ok(answer) => assert!(is_picked, "{answer:?}"),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::InvalidArgument);
                assert!(!is_picked, "{status}");
            }
        }
    }
}

#[tokio::test]
async fn a_held_part_of_a_body_is_charged_with_its_whole_message() {
    let gateway = start("").await;
    let duplex = BodyMode::FullDuplexStreamed;
    let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
    stream.send(head(PATH, false)).await;
    let metadata = subset(&vec![address(1); 800]);
    let length = prost::Message::encoded_len(&metadata);
    let part = super::data_plane::body("x", false);
    stream.send_with(part, Some(metadata)).await;
    let charged = async {
        loop {
            let page = gateway.page("/metrics").await;
            let line = "tetris_gateway_memory_bytes{budget=\"bodies\"} ";
            let (_, rest) = page.split_once(line).unwrap();
            let (bytes, _) = rest.split_once('\n').unwrap();
            let bytes: usize = bytes.parse().unwrap();
            if bytes >= length {
                return;
            }
        }
    };
    let deadline = std::time::Duration::from_secs(30);
    tokio::time::timeout(deadline, charged).await.unwrap();
}
