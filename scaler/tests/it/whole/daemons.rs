//! Simulated daemons, each on its own address, as they share one port.

use std::net::Ipv4Addr;

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

use crate::whole::api::id;
use crate::whole::world::World;

/// Port of daemons.
const PORT: u16 = 9460;

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
        let router = Router::new().route(
            "/inventory/objects",
            get(move || std::future::ready(page.clone())),
        );
        tokio::spawn(async move { axum::serve(listener, router).await });
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
