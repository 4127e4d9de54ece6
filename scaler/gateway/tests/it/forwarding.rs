//! Requests and responses as they go through.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode};

use crate::client::{ask, infer, send, send_http2, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

#[tokio::test]
async fn functions_are_found_by_prefix_host_and_model() {
    let (embed, chat) = (
        Instance::start("embed", Mode::Answer),
        Instance::start("chat", Mode::Answer),
    );
    let text = function("embed", "models = [\"minilm\"]", &[embed.address], 1)
        + &function("chat", "hosts = [\"chat.example.com\"]", &[chat.address], 1);
    let gateway = Gateway::start(&text).await;
    for (path, host, expected, rest) in [
        (
            "/functions/chat/v1/chat/completions?a=1",
            "x",
            "chat",
            "/v1/chat/completions?a=1",
        ),
        (
            "/v2/models/minilm/infer",
            "x",
            "embed",
            "/v2/models/minilm/infer",
        ),
        (
            "/v1/completions",
            "Chat.example.com:8080",
            "chat",
            "/v1/completions",
        ),
    ] {
        let request = Request::post(path)
            .header("host", host)
            .body(Full::new(Bytes::from_static(b"in")))
            .unwrap();
        let answer = whole(send(gateway.address, request).await.unwrap()).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (StatusCode::OK, expected),
            "{path}"
        );
        let all = if expected == "chat" {
            chat.seen()
        } else {
            embed.seen()
        };
        let seen = all.last().unwrap();
        assert_eq!((seen.path.as_str(), &seen.body[..]), (rest, &b"in"[..]));
        assert_eq!(
            (&seen.headers["host"], &seen.headers["content-length"]),
            (&host.parse().unwrap(), &"2".parse().unwrap())
        );
        assert_eq!(seen.headers["x-forwarded-for"], "127.0.0.1");
        assert!(
            seen.headers["traceparent"]
                .to_str()
                .unwrap()
                .starts_with("00-")
        );
    }
    let request = Request::get("/v2/models/other")
        .header("host", "x")
        .body(Full::default())
        .unwrap();
    let answer = whole(send(gateway.address, request).await.unwrap()).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(
        answer
            .body
            .contains("no function for /v2/models/other on host x"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_stream_goes_through_frame_by_frame() {
    let instance = Instance::start("chat", Mode::Stream);
    let gateway = Gateway::start(&function("chat", "", &[instance.address], 1)).await;
    let response = send(gateway.address, infer("chat")).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"first", "before the second one exists");
    let loads = gateway.loads().await;
    assert_eq!(
        loads["functions"][0]["in_flight"], 1,
        "the request lasts until its response ends"
    );
    instance.open();
    assert_eq!(&body.collect().await.unwrap().to_bytes()[..], b"second");
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
        .await;
    let latency = &gateway.loads().await["functions"][0]["latency"];
    assert!(latency["p50_ms"].as_f64().unwrap() > 0.0, "{latency}");
}

#[tokio::test]
async fn grpc_goes_through_with_its_trailers_and_errors_are_statuses() {
    let instance = Instance::start("embed", Mode::Answer);
    let gateway = Gateway::start(&function(
        "embed",
        "hosts = [\"embed\"]",
        &[instance.address],
        1,
    ))
    .await;
    let request = |host: &str| {
        let uri = format!("http://{host}/inference.GRPCInferenceService/ModelInfer");
        let request = Request::post(uri).version(hyper::Version::HTTP_2);
        let request = request
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        request
            .body(Full::new(Bytes::from_static(b"\0\0\0\0\x01m")))
            .unwrap()
    };
    let response = send_http2(gateway.address, request("embed")).await;
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(&collected.to_bytes()[..], b"\0\0\0\0\x01m");
    let seen = instance.seen();
    assert_eq!(
        (seen[0].path.as_str(), &seen[0].headers["te"]),
        (
            "/inference.GRPCInferenceService/ModelInfer",
            &"trailers".parse().unwrap()
        )
    );
    let refused = send_http2(gateway.address, request("other")).await;
    assert_eq!(
        (refused.status(), &refused.headers()["grpc-status"]),
        (StatusCode::OK, &"5".parse().unwrap())
    );
}

#[tokio::test]
async fn a_grpc_message_names_the_model_of_its_function() {
    let (first, second) = (
        Instance::start("first", Mode::Answer),
        Instance::start("second", Mode::Answer),
    );
    let text = function("first", "models = [\"m1\"]", &[first.address], 1)
        + &function("second", "models = [\"m2\"]", &[second.address], 1);
    let gateway = Gateway::start(&text).await;
    let ask = async |method: &str, body: &'static [u8]| {
        let uri = format!("http://gateway/inference.GRPCInferenceService/{method}");
        let request = Request::post(uri).version(hyper::Version::HTTP_2);
        let request = request.header("content-type", "application/grpc");
        let request = request.body(Full::new(Bytes::from_static(body))).unwrap();
        let response = send_http2(gateway.address, request).await;
        let refused = response.headers().get("grpc-status").cloned();
        (
            refused,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    };
    for (method, body, instance) in [
        ("ModelInfer", &b"\0\0\0\0\x04\x0a\x02m2"[..], &second),
        ("ModelReady", b"\0\0\0\0\x04\x0a\x02m1", &first),
    ] {
        assert_eq!(ask(method, body).await, (None, Bytes::from_static(body)));
        let seen = instance.seen();
        assert_eq!((seen.len(), &seen[0].body[..]), (1, body), "{method}");
    }
    for (method, body) in [
        ("ModelInfer", &b"\0\0\0\0\x04\x0a\x02m3"[..]),
        ("ServerReady", b"\0\0\0\0\x04\x0a\x02m1"),
    ] {
        let (status, _) = ask(method, body).await;
        assert_eq!(status.unwrap(), "5", "{method}");
    }
}

#[tokio::test]
async fn connections_to_instances_are_used_again() {
    let instance = Instance::start("embed", Mode::Answer);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    for _ in 0..20 {
        assert_eq!(ask(gateway.address, "embed").await.status, StatusCode::OK);
    }
    let metrics = gateway.page("/metrics").await;
    for line in [
        "tetris_gateway_requests_total{namespace=\"\",function=\"embed\"} 20",
        "tetris_gateway_responses_total{namespace=\"\",function=\"embed\",configuration=\"b1-p1\",outcome=\"served\"} 20",
        "tetris_gateway_objective_total{namespace=\"\",function=\"embed\",met=\"yes\"} 20",
        "tetris_gateway_instances{namespace=\"\",function=\"embed\",state=\"available\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn paths_as_openais_get_errors_of_that_form() {
    let gateway = Gateway::start(&function("chat", "queue = 0", &[], 1)).await;
    let request = Request::post("/functions/chat/v1/chat/completions")
        .header("host", "x")
        .body(Full::default())
        .unwrap();
    let answer = whole(send(gateway.address, request).await.unwrap()).await;
    let error: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        (answer.status, &error["error"]["type"]),
        (StatusCode::TOO_MANY_REQUESTS, &"rate_limit_error".into())
    );
}
