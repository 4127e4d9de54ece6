//! Callers of a function, with an API server that knows tokens by their text.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode as Status;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::AUTHORIZATION;
use serde_json::{Value, json};
use tetris_scaler::state::Key;

use super::*;

const SEARCH: &str = "10.0.0.1";
const WEB: &str = "10.0.0.2";
const INGRESS: &str = "10.0.0.3";
const NEW: &str = "10.0.0.4";
const OUTSIDE: &str = "203.0.113.9";

#[derive(Clone, Default)]
struct Server {
    is_away: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

/// Accepts tokens with a signature `ok`, of the account in their claim `sub`.
async fn review(State(server): State<Server>, Json(review): Json<Value>) -> Response {
    server.asked.fetch_add(1, Ordering::Relaxed);
    if server.is_away.load(Ordering::Relaxed) {
        return Status::SERVICE_UNAVAILABLE.into_response();
    }
    let token = review["spec"]["token"].as_str().unwrap();
    let mut parts = token.split('.');
    let claims = BASE64_URL_SAFE_NO_PAD
        .decode(parts.nth(1).unwrap())
        .unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let is_good = parts.next() == Some("ok");
    let status = json!({
        "authenticated": is_good, "audiences": claims["aud"], "user": {"username": claims["sub"]},
    });
    Json(json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
        "spec": review["spec"], "status": status,
    }))
    .into_response()
}

/// A pod of a namespace, at an address.
fn pod_at((namespace, address): (&str, &str)) -> (Key, Arc<PodAddresses>) {
    let pod = json!({
        "metadata": {"name": "a"}, "spec": {"containers": []}, "status": {"podIP": address},
    });
    let pod = serde_json::from_value(pod).unwrap();
    let key = Key::new(namespace.to_owned(), "a".to_owned());
    (key, Arc::new(PodAddresses::read(&pod).unwrap()))
}

struct Scene {
    server: Server,
    callers: Callers,
    function: FunctionName,
}

impl Scene {
    fn new() -> Self {
        let server = Server::default();
        let router = Router::new().fallback(review).with_state(server.clone());
        let config = CallersConfig {
            proxy_namespaces: vec!["ingress".to_owned()],
            ..CallersConfig::default()
        };
        let callers = Callers::new(Client::new(router, "default"), &config);
        let pods = [("search", SEARCH), ("web", WEB), ("ingress", INGRESS)];
        callers.addresses().set(&BTreeMap::from(pods.map(pod_at)));
        Self {
            server,
            callers,
            function: FunctionName {
                namespace: "search".to_owned(),
                name: "embed".to_owned(),
            },
        }
    }

    /// Status of the answer to a caller; 200 if it is admitted.
    async fn ask(&self, allowed: &AllowedCallers, peer: &str, headers: &mut HeaderMap) -> u16 {
        let peer = peer.parse().unwrap();
        let admitted = self
            .callers
            .admit(&self.function, allowed, peer, headers)
            .await;
        admitted.map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }
}

fn known(namespaces: &[&str], accounts: &[&str]) -> AllowedCallers {
    let owned = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect();
    AllowedCallers::Known {
        namespaces: owned(namespaces),
        accounts: owned(accounts),
    }
}

fn token(account: &str, signature: &str) -> String {
    let claims = json!({"aud": ["tetris-gateway"], "sub": account}).to_string();
    format!("e30.{}.{signature}", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

fn head(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    headers
}

const OF_WEB: &str = "system:serviceaccount:web:frontend";
const OF_SEARCH: &str = "system:serviceaccount:search:client";

#[tokio::test(start_paused = true)]
async fn pods_are_admitted_by_their_namespace() {
    let scene = Scene::new();
    let callers = known(&["search"], &[]);
    for (allowed, peer, expected) in [
        (&callers, SEARCH, 200),
        (&callers, WEB, 403),
        (&callers, INGRESS, 401),
        (&callers, OUTSIDE, 401),
        (&callers, "127.0.0.1", 401),
        (&known(&["search", "web"], &[]), WEB, 200),
        (&known(&["search", "*"], &[]), WEB, 200),
        (&known(&["search", "*"], &[]), OUTSIDE, 401),
        (&AllowedCallers::Anyone, OUTSIDE, 200),
    ] {
        let status = scene.ask(allowed, peer, &mut HeaderMap::new()).await;
        assert_eq!(status, expected, "{allowed:?} {peer}");
    }
    assert_eq!(scene.server.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn the_first_request_of_a_pod_waits_for_its_address() {
    let scene = Scene::new();
    let callers = known(&["search"], &[]);
    let mut headers = HeaderMap::new();
    let asked = scene.ask(&callers, NEW, &mut headers);
    let told = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pods = [("search", NEW)].map(pod_at);
        scene.callers.addresses().set(&BTreeMap::from(pods));
    };
    let begun = tokio::time::Instant::now();
    let (status, ()) = tokio::join!(asked, told);
    assert_eq!((status, begun.elapsed().as_secs()), (200, 1));
    // A caller that stays unknown is refused; as many wait at once as may.
    let waiting = (0..70).map(|_| async {
        let status = scene.ask(&callers, OUTSIDE, &mut HeaderMap::new()).await;
        (status, begun.elapsed().as_secs())
    });
    let refused = futures::future::join_all(waiting).await;
    let late = refused
        .iter()
        .filter(|(status, at)| (*status, *at) == (401, 4));
    assert_eq!(late.count(), 64);
    let at_once = refused
        .iter()
        .filter(|(status, at)| (*status, *at) == (401, 1));
    assert_eq!(at_once.count(), 6);
}

#[tokio::test(start_paused = true)]
async fn only_a_trusted_proxy_says_for_whom_it_asks() {
    let scene = Scene::new();
    let callers = known(&["search"], &[]);
    for (peer, forwarded, expected) in [
        (INGRESS, SEARCH, 200),
        (INGRESS, WEB, 403),
        (INGRESS, "10.0.0.1, 203.0.113.9", 401),
        (WEB, SEARCH, 403),
        (OUTSIDE, SEARCH, 401),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", forwarded.parse().unwrap());
        let status = scene.ask(&callers, peer, &mut headers).await;
        assert_eq!(status, expected, "{peer} for {forwarded}");
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_are_admitted_by_tokens_which_no_instance_gets() {
    let scene = Scene::new();
    let callers = known(&["search"], &["alice"]);
    for (account, signature, expected) in [
        (OF_SEARCH, "ok", 200),
        ("alice", "ok", 200),
        (OF_WEB, "ok", 403),
        ("bob", "ok", 403),
        ("search", "ok", 403),
    ] {
        let mut headers = head(&token(account, signature));
        let status = scene.ask(&callers, OUTSIDE, &mut headers).await;
        assert_eq!(status, expected, "{account}");
        assert!(headers.is_empty(), "the token of {account} stays");
    }
    // A pod of another namespace may have a token, too.
    let mut headers = head(&token(OF_SEARCH, "ok"));
    assert_eq!(scene.ask(&callers, WEB, &mut headers).await, 200);
    // One that is not needed is taken away as well.
    let mut headers = head(&token(OF_WEB, "ok"));
    assert_eq!(scene.ask(&callers, SEARCH, &mut headers).await, 200);
    assert!(headers.is_empty());
    // The key of an instance's own API is not the gateway's.
    let mut headers = head("sk-secret");
    assert_eq!(scene.ask(&callers, SEARCH, &mut headers).await, 200);
    assert_eq!(scene.ask(&callers, OUTSIDE, &mut headers).await, 401);
    assert_eq!(headers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_reviewed_once_and_a_forged_one_puts_its_address_off() {
    let scene = Scene::new();
    let callers = known(&["search"], &[]);
    for _ in 0..10 {
        let mut headers = head(&token(OF_SEARCH, "ok"));
        assert_eq!(scene.ask(&callers, OUTSIDE, &mut headers).await, 200);
    }
    assert_eq!(scene.server.asked.load(Ordering::Relaxed), 1);
    let mut forged = head(&token(OF_SEARCH, "forged"));
    assert_eq!(scene.ask(&callers, OUTSIDE, &mut forged).await, 401);
    let mut again = head(&token(OF_SEARCH, "again"));
    assert_eq!(scene.ask(&callers, OUTSIDE, &mut again).await, 429);
    // Those who were admitted do not suffer from it.
    let mut headers = head(&token(OF_SEARCH, "ok"));
    assert_eq!(scene.ask(&callers, OUTSIDE, &mut headers).await, 200);
    scene.server.is_away.store(true, Ordering::Relaxed);
    let mut other = head(&token("alice", "ok"));
    assert_eq!(scene.ask(&callers, "203.0.113.10", &mut other).await, 503);
}
