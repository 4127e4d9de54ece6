//! Calls over real Unix sockets, with servers that answer, hang and misbehave.

use std::path::PathBuf;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode};
use axum::routing::{get, put};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;
use tetris_service_kit::http::{ConnectionLimits, text};
use tetris_service_kit::shutdown::until;
use tetris_service_kit::unix_http::{Peer, UnixClient, UnixHttpError, listen, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::watch;

/// For limits that must not be what ends a test.
const LONG: Duration = Duration::from_hours(1);

struct Place {
    _dir: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        Self { _dir: dir, path }
    }

    fn client(&self) -> UnixClient {
        UnixClient::new(&self.path, LONG)
    }

    /// Serves `router` as long as the sender is there.
    fn serve(&self, router: Router) -> watch::Sender<bool> {
        let (stop, stopped) = watch::channel(false);
        let listener = listen(&self.path).unwrap();
        let limits = ConnectionLimits::default();
        tokio::spawn(serve(listener, router, limits, until(stopped)));
        stop
    }

    /// Answers one connection with `bytes`, once a request has come, and hangs up.
    fn answer_with(&self, bytes: impl Into<Vec<u8>>) {
        let (listener, bytes) = (UnixListener::bind(&self.path).unwrap(), bytes.into());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _asked = stream.read(&mut [0; 4096]).await;
            let _sent = stream.write_all(&bytes).await;
        });
    }
}

#[tokio::test]
async fn a_call_tells_who_it_is_from_and_brings_the_answer() {
    let place = Place::new();
    let echo = put(
        async |Extension(peer): Extension<Peer>, Json(asked): Json<Value>| {
            Json(json!({"asked": asked, "uid": peer.uid, "gid": peer.gid, "pid": peer.pid}))
        },
    );
    let _stop = place.serve(Router::new().route("/echo", echo));
    let answer: Value = place
        .client()
        .call(Method::PUT, "/echo", &"question")
        .await
        .unwrap();
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let pid = std::process::id();
    let expected =
        json!({"asked": "question", "uid": uid.as_raw(), "gid": gid.as_raw(), "pid": pid});
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn a_refusal_comes_with_its_reason_and_a_page_whatever_its_status() {
    let place = Place::new();
    let refused = async || text(StatusCode::FORBIDDEN, "not for you\nsecond line");
    let none = async || StatusCode::NO_CONTENT;
    let router = Router::new()
        .route("/", get(refused))
        .route("/none", get(none));
    let _stop = place.serve(router);
    let client = place.client();
    let error = client.call::<_, ()>(Method::GET, "/", &()).await;
    let Err(UnixHttpError::Refused { status, reason, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (status, reason.as_str()),
        (StatusCode::FORBIDDEN, "not for you")
    );
    let page = client.get("/", 100).await.unwrap();
    assert_eq!(page.status(), StatusCode::FORBIDDEN);
    client
        .call::<_, ()>(Method::GET, "/none", &())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_hangs_ends_the_call_at_its_limit() {
    let place = Place::new();
    let _listener = UnixListener::bind(&place.path).unwrap();
    let client = UnixClient::new(&place.path, Duration::from_millis(20));
    let error = client.get("/", 100).await.unwrap_err();
    assert!(matches!(error, UnixHttpError::TooLate { .. }), "{error:?}");
    assert!(error.to_string().contains("within 20 ms"), "{error}");
}

#[tokio::test]
async fn an_absent_server_a_broken_answer_and_one_that_is_too_long_are_errors() {
    let place = Place::new();
    let error = place.client().get("/", 100).await.unwrap_err();
    assert!(matches!(error, UnixHttpError::Io { .. }), "{error:?}");
    for answer in [
        "nonsense\r\n\r\n",
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
    ] {
        let place = Place::new();
        place.answer_with(answer);
        let error = place.client().get("/", 1000).await.unwrap_err();
        assert!(matches!(error, UnixHttpError::Exchange { .. }), "{error:?}");
    }
    let place = Place::new();
    let long = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}",
        "x".repeat(101)
    );
    place.answer_with(long);
    let error = place.client().get("/", 100).await.unwrap_err();
    assert!(matches!(error, UnixHttpError::Exchange { .. }), "{error:?}");
    let place = Place::new();
    place.answer_with("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}!");
    let error = place.client().call::<_, Value>(Method::GET, "/", &()).await;
    assert!(
        matches!(error, Err(UnixHttpError::Json { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_answer_as_long_as_the_limit_is_taken() {
    let place = Place::new();
    let body = "x".repeat(1 << 20);
    let page = body.clone();
    let _stop = place.serve(Router::new().route("/", get(async move || page)));
    let answer = place.client().get("/", 1 << 20).await.unwrap();
    assert_eq!(answer.body(), body.as_bytes());
}

#[tokio::test]
async fn a_message_over_the_servers_limit_is_refused() {
    let place = Place::new();
    let router = Router::new()
        .route(
            "/",
            put(async |Json(_): Json<Value>| StatusCode::NO_CONTENT),
        )
        .layer(DefaultBodyLimit::max(100));
    let _stop = place.serve(router);
    let client = place.client();
    let call = async |length: usize| {
        let message = "x".repeat(length);
        client.call::<_, ()>(Method::PUT, "/", &message).await
    };
    call(90).await.unwrap();
    let error = call(200).await;
    let too_large = |status| status == StatusCode::PAYLOAD_TOO_LARGE;
    assert!(
        matches!(error, Err(UnixHttpError::Refused { status, .. }) if too_large(status)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_dead_socket_gives_its_name_up_and_a_living_one_does_not() {
    let place = Place::new();
    drop(UnixListener::bind(&place.path).unwrap());
    let living = listen(&place.path).unwrap();
    let error = listen(&place.path).unwrap_err();
    assert!(matches!(error, UnixHttpError::InUse { .. }), "{error:?}");
    drop(living);
    std::fs::remove_file(&place.path).unwrap();
    std::fs::write(&place.path, "no socket").unwrap();
    let error = listen(&place.path).unwrap_err();
    assert!(matches!(error, UnixHttpError::Io { .. }), "{error:?}");
    assert_eq!(std::fs::read(&place.path).unwrap(), b"no socket");
}
