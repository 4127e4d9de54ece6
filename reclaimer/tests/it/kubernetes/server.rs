//! An API server, played by the test: it takes each request and chooses the answer.

use axum::body::{Body, Bytes};
use futures::{StreamExt, channel::mpsc, stream};
use http::{Request, Response};
use serde_json::{Value, json};
use tower_test::mock::{self, SendResponse};

type Mock = mock::Handle<Request<kube::client::Body>, Response<Body>>;

/// The name of this node.
pub const NODE: &str = "node-7.example";

pub struct Server(Mock);

/// A request that waits for its answer.
pub struct Call {
    pub uri: String,
    answer: SendResponse<Response<Body>>,
}

/// A watch that is open. Dropping it ends the answer, as a server does when the time is over.
pub struct OpenWatch(mpsc::UnboundedSender<Result<Bytes, std::io::Error>>);

impl Server {
    pub fn start() -> (kube::Client, Self) {
        let (service, handle) = mock::pair();
        (kube::Client::new(service, "default"), Self(handle))
    }

    pub async fn next(&mut self) -> Call {
        let (request, answer) = self.0.next_request().await.expect("the client is gone");
        assert_eq!(request.method(), http::Method::GET);
        assert_eq!(request.uri().path(), "/api/v1/pods");
        let uri = request.uri().to_string();
        Call { uri, answer }
    }

    pub async fn next_list(&mut self) -> Call {
        let call = self.next().await;
        assert!(!call.is_watch(), "expected a list: {}", call.uri);
        call
    }

    pub async fn next_watch(&mut self) -> Call {
        let call = self.next().await;
        assert!(call.is_watch(), "expected a watch: {}", call.uri);
        call
    }

    /// Answers a list, and the watch that follows.
    pub async fn sync(&mut self, pods: &[Value]) -> OpenWatch {
        self.next_list().await.pods(pods);
        self.next_watch().await.open()
    }
}

impl Call {
    pub fn is_watch(&self) -> bool {
        self.parameter("watch").as_deref() == Some("true")
    }

    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.uri.split_once('?')?;
        let mut parameters = query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = parameters.find(|(found, _)| *found == name)?;
        Some(value.replace("%3D", "=").replace("%2F", "/"))
    }

    /// The whole list.
    pub fn pods(self, pods: &[Value]) {
        self.page(pods, "");
    }

    /// A page of it; an empty token means that it is the last.
    pub fn page(self, pods: &[Value], token: &str) {
        let list = json!({
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": {"resourceVersion": "100", "continue": token},
            "items": pods,
        });
        self.body(200, &list.to_string());
    }

    pub fn open(self) -> OpenWatch {
        let (sender, events) = mpsc::unbounded();
        // Pending for ever only while the sender lives.
        let body = Body::from_stream(stream::unfold(events, |mut events| async {
            events.next().await.map(|event| (event, events))
        }));
        self.answer.send_response(Response::new(body));
        OpenWatch(sender)
    }

    pub fn status(self, code: u16) {
        self.body(code, &status(code).to_string());
    }

    pub fn body(self, code: u16, body: &str) {
        let response = Response::builder().status(code);
        let response = response.body(Body::from(body.to_owned())).unwrap();
        self.answer.send_response(response);
    }

    pub fn refuse(self) {
        self.answer
            .send_error(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
    }
}

impl OpenWatch {
    pub fn event(&self, kind: &str, object: &Value) {
        self.line(&json!({"type": kind, "object": object}).to_string());
    }

    pub fn line(&self, line: &str) {
        self.0
            .unbounded_send(Ok(format!("{line}\n").into()))
            .unwrap();
    }

    /// The connection breaks.
    pub fn reset(self) {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        self.0.unbounded_send(Err(error)).unwrap();
    }
}

/// An error as the API server words it.
pub fn status(code: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "as the test wants it", "reason": "Test", "code": code,
    })
}

/// A running pod of the namespace `blue` on this node that declares `models`, with fields that do
/// not matter.
pub fn pod(name: &str, models: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "blue", "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "101",
            "annotations": {"tetris.dev/models": models, "other": "manifest:x"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "server"}]},
        "status": {"phase": "Running", "qosClass": "Guaranteed"},
    })
}

/// `pod`, with the value at `path` changed.
pub fn with(mut pod: Value, path: &str, value: Value) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    pod
}
