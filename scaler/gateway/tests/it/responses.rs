//! Responses of hostile instances: no client gets what is no response, or another one's.

use http_body_util::Full;
use hyper::Request;

use crate::client::{ask, send, whole};
use crate::gateway::{Gateway, function};
use crate::raw_instance::RawInstance;

#[tokio::test]
async fn an_instance_that_switches_protocols_is_broken() {
    let instance = RawInstance::start(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhidden",
    );
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    for upgrade in [false, true] {
        let mut request = Request::get("/functions/embed/x").header("host", "g");
        if upgrade {
            request = request
                .header("connection", "upgrade")
                .header("upgrade", "x");
        }
        let request = request.body(Full::default()).unwrap();
        let answer = whole(send(gateway.address, request).await.unwrap()).await;
        assert_eq!(answer.status.as_u16(), 502, "{}", answer.body);
        assert!(answer.body.contains("101"), "{}", answer.body);
        assert!(!answer.headers.contains_key("upgrade"));
    }
    while instance.connections() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_endless_row_of_informational_heads_ends_with_the_time_for_a_response() {
    let many = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(1_000);
    let instance = RawInstance::start(many);
    let text = format!(
        "[timeouts]\nresponse = \"300ms\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    assert_eq!(ask(gateway.address, "embed").await.status.as_u16(), 504);
}

#[tokio::test]
async fn large_heads_of_instances_are_refused() {
    for head in [
        "x-many: 1\r\n".repeat(101),
        format!("x-large: {}\r\n", "x".repeat(300 << 10)),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{head}\r\n");
        let instance = RawInstance::start(answer);
        let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
        assert_eq!(ask(gateway.address, "embed").await.status.as_u16(), 502);
    }
}

/// Each form is a response with a second one behind it, which another request must not get.
#[tokio::test]
async fn responses_with_two_readings_are_never_seen_as_two() {
    let hidden = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhidden";
    for form in [
        "content-length: 2\r\n\r\nok",
        "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n",
        "content-length: 2\r\ncontent-length: 4\r\n\r\nok",
        "content-length: 2, 4\r\n\r\nok",
        "content-length: +2\r\n\r\nok",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ] {
        let instance = RawInstance::start(format!("HTTP/1.1 200 OK\r\n{form}{hidden}"));
        let text = format!(
            "[timeouts]\nidle = \"100ms\"\nresponse = \"100ms\"\n{}",
            function("embed", "", &[instance.address], 1)
        );
        let gateway = Gateway::start(&text).await;
        for _ in 0..3 {
            let request = Request::get("/functions/embed/x").header("host", "g");
            let request = request.body(Full::default()).unwrap();
            // The gateway may break off as well.
            let Ok(response) = send(gateway.address, request).await else {
                continue;
            };
            let body = http_body_util::BodyExt::collect(response.into_body()).await;
            let body = body
                .map(http_body_util::Collected::to_bytes)
                .unwrap_or_default();
            assert_ne!(&body[..], b"hidden", "{form}");
        }
    }
}
