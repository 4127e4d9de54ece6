//! Paths that a function serves, and those that reach no instance.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};

use crate::client::{Answer, send, send_http2, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

async fn ask(gateway: &Gateway, method: &str, path: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "embed.example.com");
    let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    whole(send(gateway.address, request).await.unwrap()).await
}

#[tokio::test]
async fn by_default_only_paths_of_inference_reach_an_instance() {
    let instance = Instance::start("one", Mode::Answer);
    let fields = "paths = [\"inference\", \"openai\"]\nhosts = [\"embed.example.com\"]";
    let gateway = Gateway::start(&function("embed", fields, &[instance.address], 1)).await;
    for (method, path) in [
        ("POST", "/v2/repository/models/m/unload"),
        ("POST", "/functions/embed/v2/repository/models/m/unload"),
        ("POST", "/functions/embed/v2/%72epository/models/m/unload"),
        (
            "POST",
            "/functions/embed/v2/models/m/../../repository/models/m/unload",
        ),
        (
            "POST",
            "/functions/embed/v2/models/m/%2e%2e/%2E./repository/index",
        ),
        ("POST", "/functions/embed//v2//repository/index"),
        ("GET", "/metrics"),
        ("GET", "/../../metrics"),
        ("GET", "/functions/embed/metrics"),
        ("GET", "/functions/embed/v1/../metrics"),
        ("GET", "/functions/embed"),
        ("PUT", "/v2/models/m/infer"),
        ("GET", "/v2/models/stats"),
        ("POST", "/sleep"),
    ] {
        let answer = ask(&gateway, method, path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    for path in [
        "/v2/models/m%2Funload",
        "/v2/models/m\\unload",
        "/functions/embed/v1/..;/metrics",
        "/v2/models/%00/infer",
        "/functions/embed/v2/models/%zz/infer",
    ] {
        let answer = ask(&gateway, "POST", path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert!(instance.seen().is_empty(), "{:?}", instance.seen());
    let load = gateway.loads().await["functions"][0].clone();
    assert_eq!(load["requests"], 0, "refused requests are no load");
    let refused = "tetris_gateway_refused_total{namespace=\"\",function=\"embed\",reason=\"path\"}";
    assert!(gateway.page("/metrics").await.contains(refused));

    for (method, path, expected) in [
        (
            "POST",
            "/v2/models/m/infer?a=%2F",
            "/v2/models/m/infer?a=%2F",
        ),
        (
            "POST",
            "/functions/embed/v2/models/m/infer",
            "/v2/models/m/infer",
        ),
        (
            "POST",
            "/functions/x/../embed//v1/./embeddings",
            "/v1/embeddings",
        ),
        ("GET", "/%761/models/org/%6dodel", "/v1/models/org/model"),
        ("OPTIONS", "/v1/chat/completions", "/v1/chat/completions"),
    ] {
        let answer = ask(&gateway, method, path).await;
        assert_eq!(answer.status, StatusCode::OK, "{method} {path}");
        assert_eq!(instance.seen().last().unwrap().path, expected);
    }
    assert_eq!(gateway.loads().await["functions"][0]["requests"], 5);
}

#[tokio::test]
async fn a_file_lists_the_paths_of_a_function_and_may_change_them() {
    let instance = Instance::start("one", Mode::Answer);
    let text = |paths: &str| function("embed", &format!("paths = {paths}"), &[instance.address], 1);
    let gateway = Gateway::start(&text("[\"POST /predict\"]")).await;
    let status = async |path| {
        let answer = ask(&gateway, "POST", &format!("/functions/embed{path}")).await;
        answer.status.as_u16()
    };
    assert_eq!(
        (status("/predict").await, status("/v1/embeddings").await),
        (200, 404)
    );
    let added = text("[\"POST /predict\", \"openai\"]") + &function("new", "", &[], 1);
    gateway
        .configure(&added, |loads| {
            loads["functions"].as_array().unwrap().len() == 2
        })
        .await;
    assert_eq!(
        (status("/predict").await, status("/v1/embeddings").await),
        (200, 200)
    );
}

#[tokio::test]
async fn methods_of_grpc_that_manage_a_server_are_refused() {
    let instance = Instance::start("one", Mode::Answer);
    let fields = "paths = [\"inference\"]";
    let gateway = Gateway::start(&function("embed", fields, &[instance.address], 1)).await;
    for (method, status) in [("RepositoryModelUnload", "5"), ("ModelInfer", "0")] {
        let path = format!("/functions/embed/inference.GRPCInferenceService/{method}");
        let request = Request::post(format!("http://gateway{path}"))
            .header("content-type", "application/grpc");
        let request = request
            .body(Full::new(Bytes::from_static(b"\0\0\0\0\0")))
            .unwrap();
        let response = send_http2(gateway.address, request).await;
        let head = response.headers().get("grpc-status").cloned();
        // The instance's own status is in its trailers.
        let code = head.map_or("0".to_owned(), |value| value.to_str().unwrap().to_owned());
        assert_eq!(code, status, "{method}");
    }
    assert_eq!(instance.seen().len(), 1);
}
