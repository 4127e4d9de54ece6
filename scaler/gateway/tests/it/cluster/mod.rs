//! A gateway of a cluster, as a process, and callers from other addresses of the loopback as pods.

mod api;

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tetris_gateway::picker::wire::{Answer, BodyMode};

use crate::client::{self, send_from, whole};
use crate::instance::{Instance, Mode};
use crate::picker::data_plane::{Stream, head_with, picked, removed};
use crate::replica::free_address;
use crate::server::Server;

const PODS: &[(&str, &str)] = &[
    ("search", "127.0.0.2"),
    ("web", "127.0.0.3"),
    ("other", "127.0.0.4"),
    ("ingress", "127.0.0.5"),
];
const SEARCH: &str = "127.0.0.2:0";
const WEB: &str = "127.0.0.3:0";
const OTHER: &str = "127.0.0.4:0";
const INGRESS: &str = "127.0.0.5:0";
const OUTSIDE: &str = "127.0.0.6:0";
const PATH: &str = "/functions/search/embed/v1/embeddings";

struct ClusterGateway {
    address: SocketAddr,
    picker: SocketAddr,
    own: SocketAddr,
    process: Child,
    _folder: tempfile::TempDir,
    _api: Server,
}

impl ClusterGateway {
    async fn start(instance: SocketAddr) -> Self {
        let api = api::start(instance, PODS);
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            api.address()
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let config = folder.path().join("gateway.toml");
        // The tests' data plane is a proxy, and has the loopback's usual address.
        let text = "[callers]\nproxies = [\"127.0.0.1/32\"]\nproxy_namespaces = [\"ingress\"]\n";
        std::fs::write(&config, text).unwrap();
        let [address, picker, own] = [(); 3].map(|()| free_address());
        let process = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"))
            .args(["run", "--cluster", "--log", "error", "--config"])
            .arg(&config)
            .args(["--listen", &address.to_string()])
            .args(["--metrics-listen", &own.to_string()])
            .args(["--picker-listen", &picker.to_string()])
            .env("KUBECONFIG", &kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let gateway = Self {
            address,
            picker,
            own,
            process,
            _folder: folder,
            _api: api,
        };
        gateway.ready().await;
        gateway
    }

    async fn ready(&self) {
        while tokio::net::TcpStream::connect(self.own).await.is_err()
            || self.page("/readyz").await != "ok\n"
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn page(&self, path: &str) -> String {
        let request = Request::get(path).header("host", "gateway");
        let request = request.body(Full::default()).unwrap();
        let response = client::send(self.own, request).await.unwrap();
        whole(response).await.body
    }

    /// Status of the answer to a client.
    async fn ask(&self, from: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::post(PATH).header("host", "gateway");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let response = send_from(from, self.address, request).await.unwrap();
        whole(response).await.status.as_u16()
    }
}

impl Drop for ClusterGateway {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[tokio::test]
async fn a_function_is_for_its_own_namespace_and_for_whom_it_names() {
    let instance = Instance::start("one", Mode::Answer);
    let gateway = ClusterGateway::start(instance.address).await;
    let bearer = |account: &str| format!("Bearer {}", api::token(account));
    for (from, headers, expected) in [
        (SEARCH, &[][..], 200),
        (WEB, &[], 200),
        (OTHER, &[], 403),
        (OUTSIDE, &[], 401),
        (OTHER, &[("x-forwarded-for", "127.0.0.2")], 403),
        (INGRESS, &[("x-forwarded-for", "127.0.0.2")], 200),
        (INGRESS, &[("x-forwarded-for", "127.0.0.2, 127.0.0.4")], 403),
        (OUTSIDE, &[("authorization", &bearer("alice"))], 200),
        (
            OTHER,
            &[("authorization", &bearer("system:serviceaccount:search:a"))],
            200,
        ),
        (
            OTHER,
            &[("authorization", &bearer("system:serviceaccount:other:a"))],
            403,
        ),
        (
            "127.0.0.7:0",
            &[("authorization", "Bearer e30.e30.bad")],
            401,
        ),
    ] {
        assert_eq!(
            gateway.ask(from, headers).await,
            expected,
            "{from} {headers:?}"
        );
    }
    let seen = instance.seen();
    assert_eq!(seen.len(), 5);
    let keeps = |headers: &hyper::HeaderMap| headers.contains_key("authorization");
    assert!(
        !seen.iter().any(|request| keeps(&request.headers)),
        "tokens stay here"
    );
    let loads: serde_json::Value = serde_json::from_str(&gateway.page("/loads").await).unwrap();
    assert_eq!(
        loads["functions"][0]["requests"], 5,
        "strangers are no load"
    );
    // Keys of an instance's own API go on.
    assert_eq!(
        gateway
            .ask(SEARCH, &[("authorization", "Bearer sk-1")])
            .await,
        200
    );
    assert!(keeps(&instance.seen().last().unwrap().headers));
}

#[tokio::test]
async fn a_data_plane_that_is_trusted_says_for_whom_it_asks() {
    let instance = Instance::start("one", Mode::Answer);
    let gateway = ClusterGateway::start(instance.address).await;
    let open = || Stream::open(gateway.picker, BodyMode::None, BodyMode::None);
    let from = |address| [("x-forwarded-for", address)];
    let mut stream = open().await;
    let answer = stream.ask(head_with(PATH, true, &from("127.0.0.2"))).await;
    assert_eq!(picked(&answer), Some(instance.address));
    assert!(!removed(&answer).contains(&"authorization".to_owned()));
    for (more, expected) in [(&from("127.0.0.4")[..], 403), (&[], 401)] {
        let refusal = open()
            .await
            .refused(head_with(PATH, true, more), None)
            .await;
        assert_eq!(refusal.status.unwrap().code, expected);
    }
    let bearer = format!("Bearer {}", api::token("alice"));
    let mut stream = open().await;
    let with_token = head_with(PATH, true, &[("authorization", &bearer)]);
    let answer = stream.ask(with_token).await;
    assert!(matches!(answer.response, Some(Answer::RequestHeaders(_))));
    assert!(removed(&answer).contains(&"authorization".to_owned()));
}
