//! The Unix socket: questions about pods and namespaces, and reports.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use tetris_node::csi::{NamespaceError, NoCluster, PodName, PodPlace};
use tetris_node::kubernetes::{KnownNamespaces, watch_namespaces};
use tetris_node::processes::cluster::{Reports, router};
use tetris_node::processes::messages::{
    Asked, LivingNamespaces, NamespaceGone, NamespaceQuestion, PlaceOfPod, PodQuestion,
};
use tetris_service_kit::unix_http::Peer;
use tokio::sync::watch;
use tower::ServiceExt as _;

use tetris_test_support::api::{Api, POD_UID, uid_of};

/// A user that is neither root nor the one of the test.
const OTHER: u32 = 1_234_567;

/// The socket's router over an API server.
async fn over(api: &Api) -> (Router, Arc<Reports>) {
    let url = format!("http://{}", api.serve().await).parse().unwrap();
    let client = kube::Client::try_from(kube::Config::new(url)).unwrap();
    let (sender, living) = watch::channel(None);
    let known = KnownNamespaces::new(client.clone(), living);
    tokio::spawn(watch_namespaces(
        client,
        sender,
        |_| {},
        std::future::pending(),
    ));
    let reports = Arc::new(Reports::new(true, true));
    (router(Arc::new(known), Arc::clone(&reports)), reports)
}

async fn ask(
    router: &Router,
    uid: u32,
    method: Method,
    path: &str,
    message: &impl Serialize,
) -> (StatusCode, Value) {
    let body = Body::from(serde_json::to_vec(message).unwrap());
    let mut request = Request::builder().method(method).uri(path);
    request = request.header(CONTENT_TYPE, "application/json");
    let peer = Peer {
        uid,
        gid: uid,
        pid: None,
    };
    let request = request.extension(peer).body(body).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn pod(name: &str, uid: &str) -> PodQuestion {
    PodQuestion {
        namespace: "blue".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

async fn place_of(router: &Router, question: &PodQuestion) -> Result<PodPlace, NamespaceError> {
    let (status, answer) = ask(router, 0, Method::POST, "/pods/place", question).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let answer: Asked<PlaceOfPod> = serde_json::from_value(answer).unwrap();
    answer.answered().map(Into::into)
}

#[tokio::test]
async fn a_pod_is_placed_and_errors_keep_their_kinds() {
    let api = Api::new();
    let (router, _) = over(&api).await;
    let place = place_of(&router, &pod("a", POD_UID)).await.unwrap();
    let expected = PodPlace {
        namespace_uid: uid_of("blue", 1),
        host_users: true,
    };
    assert_eq!(place, expected);
    api.set_pod("blue", "b", "other");
    let error = place_of(&router, &pod("b", "mine")).await.unwrap_err();
    let mine = PodName::from(pod("b", "mine"));
    let other_uid = "other".to_owned();
    assert_eq!(
        error,
        NamespaceError::OtherPod {
            pod: mine,
            found: other_uid
        }
    );
    api.remove("blue");
    let error = place_of(&router, &pod("a", POD_UID)).await.unwrap_err();
    assert!(
        matches!(error, NamespaceError::NotFound { .. }),
        "{error:?}"
    );
    api.set_down(true);
    let error = place_of(&router, &pod("a", POD_UID)).await.unwrap_err();
    assert!(matches!(error, NamespaceError::Unknown { .. }), "{error:?}");
}

#[tokio::test]
async fn a_namespace_is_gone_once_the_api_server_says_so_and_living_ones_are_listed() {
    let api = Api::new();
    let uid = api.make("blue");
    let (router, _) = over(&api).await;
    let question = NamespaceQuestion {
        name: "blue".to_owned(),
        uid: uid.clone(),
    };
    let is_gone = async || {
        let (_, answer) = ask(&router, 0, Method::POST, "/namespaces/gone", &question).await;
        let answer: Asked<NamespaceGone> = serde_json::from_value(answer).unwrap();
        answer.answered().map(|answer| answer.gone)
    };
    let living = async || {
        let (_, answer) = ask(&router, 0, Method::GET, "/namespaces/living", &()).await;
        serde_json::from_value::<LivingNamespaces>(answer)
            .unwrap()
            .uids
    };
    assert_eq!(is_gone().await, Ok(false));
    while living().await != Some([uid.clone()].into()) {
        tokio::task::yield_now().await;
    }
    api.make("blue");
    assert_eq!(is_gone().await, Ok(true));
    while living().await != Some([uid_of("blue", 2)].into()) {
        tokio::task::yield_now().await;
    }
    api.set_down(true);
    assert!(is_gone().await.is_err());
}

#[tokio::test]
async fn questions_are_for_root_and_reports_for_all_that_reach_the_socket() {
    let api = Api::new();
    let (router, reports) = over(&api).await;
    let question = pod("a", POD_UID);
    for (method, path) in [
        (Method::POST, "/pods/place"),
        (Method::POST, "/namespaces/gone"),
        (Method::GET, "/namespaces/living"),
    ] {
        let (status, _) = ask(&router, OTHER, method, path, &question).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
    }
    let report =
        |process: &str| json!({"process": process, "version": "1", "started_ms": 1, "sandbox": {}});
    for process in ["volumes", "mirror"] {
        let path = format!("/reports/{process}");
        let (status, _) = ask(&router, OTHER, Method::PUT, &path, &report(process)).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{process}");
    }
    drop(reports);
    for (path, process) in [
        ("/reports/volumes", "mirror"),
        ("/reports/broker", "broker"),
        ("/reports/cluster", "cluster"),
        ("/reports/other", "other"),
    ] {
        let (status, _) = ask(&router, 0, Method::PUT, path, &report(process)).await;
        assert!(status.is_client_error(), "{path}: {status}");
    }
    let long = json!({"process": "volumes", "version": "1".repeat(1 << 20), "started_ms": 1, "sandbox": {}});
    let (status, _) = ask(&router, 0, Method::PUT, "/reports/volumes", &long).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_ends_is_refused() {
    let namespaces = Arc::new(NoCluster::new("none"));
    let router = router(namespaces, Arc::new(Reports::new(true, true)));
    let endless = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = Request::put("/reports/volumes");
    let request = request.header(CONTENT_TYPE, "application/json");
    let request = request.body(Body::from_stream(endless)).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
}
