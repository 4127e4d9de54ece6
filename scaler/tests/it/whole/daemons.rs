//! Simulated daemons, each on its own address, as they share one port.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::json;
use tetris_service_kit::bound_tls::BoundTls;
use tetris_service_kit::http::{ConnectionLimits, OneRequest, serve};
use tokio::net::TcpListener;

use crate::whole::api::id;
use crate::whole::world::World;

/// Port of daemons.
const PORT: u16 = 9466;

/// Longest time for any part of a request.
const PATIENCE: Duration = Duration::from_mins(1);

/// Serves `page` over TLS, to the scaler's account with a token for this server alone.
pub fn serve_page(
    listener: TcpListener,
    page: impl Fn(&HeaderMap) -> Response + Clone + Send + Sync + 'static,
) {
    let requests = OneRequest {
        request: PATIENCE,
        answer: PATIENCE,
    };
    let tls = BoundTls::try_new("tetris-node", PATIENCE, requests).unwrap();
    let token = format!("Bearer tetris-scaler={}", tls.audience());
    let answer = async move |headers: HeaderMap| {
        let found = headers.get(AUTHORIZATION);
        if found.is_none_or(|found| *found != token) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let mut answer = page(&headers);
        answer
            .headers_mut()
            .insert(CONNECTION, "close".parse().unwrap());
        answer
    };
    let router = Router::new().route("/inventory/objects", get(answer));
    let limits = ConnectionLimits::default();
    tokio::spawn(serve(listener, tls, router, limits, std::future::pending()));
}

/// Returns an unused loopback address.
pub fn loopback() -> Ipv4Addr {
    let [a, b, c] = rand::random::<[u8; 3]>();
    Ipv4Addr::new(127, 64 + a % 128, b, c.clamp(1, 254))
}

impl World {
    /// Starts a daemon with `objects` in the store of the namespace `blue`.
    pub async fn daemon(&self, node: &str, objects: &[String]) {
        let address = loopback();
        let listener = TcpListener::bind((address, PORT)).await;
        let listener = listener.unwrap_or_else(|error| panic!("{address}:{PORT}: {error}"));
        let page = json!({"version": 1, "node": node, "stores": [{
            "name": "blue", "id": "x", "usable": true, "capacity_bytes": 8_u64 << 30,
            "free_bytes": 7_u64 << 30, "objects": objects,
        }]});
        let page = page.to_string();
        serve_page(listener, move |_| page.clone().into_response());
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": {"app.kubernetes.io/name": "tetris-node"}},
            "spec": {"nodeName": node, "containers": [{"name": "node", "image": "node"}]},
            "status": {
                "phase": "Running", "podIP": address.to_string(),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let name = format!("tetris-node-{node}");
        self.api.with(|state| {
            state
                .objects
                .create(&id("pods", "tetris-system", &name), pod);
        });
    }
}
