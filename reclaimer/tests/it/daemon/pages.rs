//! The servers of pages of a running daemon, beside an API server that the test simulates.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tetris_service_kit::bound_tls::BoundClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use crate::daemon::harness::{Daemon, Place, eventually};
use tetris_test_support::api::Api;

const SCALER: &str = "system:serviceaccount:tetris-system:tetris-scaler";
const OTHER: &str = "system:serviceaccount:blue:default";

/// Address that the log has after `name`.
fn address(daemon: &Daemon, name: &str) -> SocketAddr {
    let line = daemon.says(&format!(" {name}=127.0.0.1"));
    let rest = line.split(&format!(" {name}=")).nth(1).unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

fn get(server: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The objects that a client with this token reads, and the audience of the server.
pub async fn get_by_token(server: SocketAddr, token: &str) -> (String, String) {
    let stream = tokio::net::TcpStream::connect(server).await.unwrap();
    let client = BoundClient::try_new("tetris-node").unwrap();
    let mut bound = client.connect(stream, server.ip()).await.unwrap();
    let request = format!(
        "GET /inventory/objects HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    bound.stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ended = bound.stream.read_to_end(&mut answer).await;
    (String::from_utf8(answer).unwrap(), bound.audience)
}

/// A pod that opens as many connections as it can to every port, and asks for all that it can.
#[test]
fn a_pod_learns_no_tensors_and_keeps_no_probe_out() {
    let place = Place::new();
    let store = place.store();
    let runtime = Runtime::new().unwrap();
    let api = Api::new();
    let server = runtime.block_on(api.serve());
    let kubeconfig = place.path("kubeconfig");
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{token: t}}}}], \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let config = place.config(
        "[network]\nmetrics = \"127.0.0.1:0\"\nprobes = \"127.0.0.1:0\"\ninventory = \"127.0.0.1:0\"",
    );
    let variables = [("KUBECONFIG", kubeconfig.as_os_str())];
    let arguments = ["--kubernetes", "--node", "node-1"];
    let daemon = Daemon::start_with(&config, &arguments, &variables);
    let [metrics, probes, inventory] =
        ["metrics", "probes", "inventory"].map(|name| address(&daemon, name));
    let model = place.load(50_000, 1);
    let object = store.objects().unwrap().objects[0].object.id.to_string();
    let (nothing, audience) = runtime.block_on(get_by_token(inventory, "nonsense"));
    assert!(nothing.starts_with("HTTP/1.1 401"), "{nothing}");
    assert!(nothing.ends_with("\r\n\r\n"), "{nothing}");
    api.add_token("scaler", SCALER, &audience);
    api.add_token("other", OTHER, &audience);
    // The address of the refused token must wait.
    let found = eventually("the scaler's inventory", || {
        let (answer, _) = runtime.block_on(get_by_token(inventory, "scaler"));
        answer.contains(&object).then_some(answer)
    });
    assert!(found.starts_with("HTTP/1.1 200"), "{found}");
    let (other, _) = runtime.block_on(get_by_token(inventory, "other"));
    assert!(other.starts_with("HTTP/1.1 403"), "{other}");
    for page in ["/status", "/inventory", "/inventory/objects"] {
        for server in [metrics, probes] {
            let answer = get(server, page);
            assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        }
    }
    assert!(!get(metrics, "/metrics").contains(&object));
    let mut idle = Vec::new();
    for server in [metrics, probes, inventory] {
        for _ in 0..600 {
            idle.push(TcpStream::connect(server).unwrap());
        }
        for page in ["/healthz", "/readyz"] {
            let begun = Instant::now();
            let answer = get(probes, page);
            assert!(answer.starts_with("HTTP/1.1 200"), "{page}: {answer}");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(1), "{page} took {took:?}");
        }
    }
    drop(model);
    assert!(daemon.stop().success());
}
