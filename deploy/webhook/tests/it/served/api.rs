//! An API server that holds one secret and one webhook configuration, with versions as Kubernetes has them. What the
//! webhook may not do is forbidden here too.

use std::sync::{Arc, Mutex};

use http::{Method, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower_test::mock;

pub const SECRET: &str = "/api/v1/namespaces/tetris-system/secrets/tetris-webhook-tls";
pub const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tetris-webhook";

type Hook = Box<dyn FnOnce(&mut State) + Send>;

/// Objects and behavior of the API server.
#[derive(Default)]
pub struct State {
    pub secret: Option<Value>,
    pub configuration: Option<Value>,
    /// Requests so far, as `METHOD path`.
    pub asked: Vec<String>,
    /// The answer to everything, if any.
    pub fails_with: Option<u16>,
    /// True if connections are refused.
    pub is_down: bool,
    /// Hook before the next write: the work of another replica.
    pub before_write: Option<Hook>,
    /// Hook after the next read.
    pub after_read: Option<Hook>,
    version: u64,
}

/// Shared by the test and all replicas.
#[derive(Clone, Default)]
pub struct Api(Arc<Mutex<State>>);

impl Api {
    /// With the webhook configuration as it is applied, and an empty secret.
    pub fn new() -> Self {
        let api = Self::default();
        api.with(|state| {
            state.configure(configuration());
            state.store(empty_secret());
        });
        api
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// A client of it.
    pub fn client(&self) -> kube::Client {
        let (service, mut handle) =
            mock::pair::<http::Request<kube::client::Body>, Response<axum::body::Body>>();
        let api = self.clone();
        tokio::spawn(async move {
            while let Some((request, answer)) = handle.next_request().await {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                if api.with(|state| state.is_down) {
                    answer.send_error(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
                    continue;
                }
                let (code, object) =
                    api.with(|state| state.answer(&parts.method, parts.uri.path(), &body));
                let response = Response::builder().status(code);
                answer.send_response(response.body(object.to_string().into()).unwrap());
            }
        });
        kube::Client::new(service, "default")
    }
}

impl State {
    pub fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        self.asked.push(format!("{method} {path}"));
        if let Some(code) = self.fails_with {
            return failure(code);
        }
        if method != Method::GET
            && let Some(hook) = self.before_write.take()
        {
            hook(self);
        }
        let answer = self.carry_out(method, path, body);
        if method == Method::GET
            && let Some(hook) = self.after_read.take()
        {
            hook(self);
        }
        answer
    }

    fn carry_out(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let object = || serde_json::from_slice::<Value>(body).unwrap();
        match (method, path) {
            (&Method::GET, SECRET) => found(self.secret.as_ref()),
            (&Method::GET, CONFIGURATION) => found(self.configuration.as_ref()),
            (&Method::PUT, SECRET) => match &self.secret {
                None => failure(404),
                Some(secret) if version(secret) != version(&object()) => failure(409),
                Some(secret) if rest(secret) != rest(&object()) => failure(422),
                Some(_) => self.store(object()),
            },
            (&Method::PATCH, CONFIGURATION) => self.patch(&object()),
            _ => failure(403),
        }
    }

    /// A write of the secret by any client.
    pub fn store(&mut self, mut secret: Value) -> (u16, Value) {
        secret["metadata"]["resourceVersion"] = self.next_version();
        assert_eq!(secret["metadata"]["name"], "tetris-webhook-tls");
        self.secret = Some(secret.clone());
        (200, secret)
    }

    /// A write of the configuration by any client.
    pub fn configure(&mut self, mut configuration: Value) {
        configuration["metadata"]["resourceVersion"] = self.next_version();
        self.configuration = Some(configuration);
    }

    /// A strategic merge: webhooks by name.
    fn patch(&mut self, patch: &Value) -> (u16, Value) {
        let Some(mut configuration) = self.configuration.clone() else {
            return failure(404);
        };
        if version(patch) != version(&configuration) {
            return failure(409);
        }
        for changed in patch["webhooks"].as_array().unwrap() {
            let fields = |value: &Value| value.as_object().unwrap().len();
            if fields(changed) != 2 || fields(&changed["clientConfig"]) != 1 {
                return failure(422);
            }
            let webhooks = configuration["webhooks"].as_array_mut().unwrap();
            let webhook = webhooks
                .iter_mut()
                .find(|webhook| webhook["name"] == changed["name"])
                .unwrap();
            webhook["clientConfig"]["caBundle"] = changed["clientConfig"]["caBundle"].clone();
        }
        self.configure(configuration.clone());
        (200, configuration)
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        self.version.to_string().into()
    }

    /// Returns the number of such requests.
    pub fn count(&self, what: &str) -> usize {
        self.asked
            .iter()
            .filter(|asked| asked.starts_with(what))
            .count()
    }
}

/// The part of a secret that a policy lets no one here change.
fn rest(secret: &Value) -> Value {
    let mut rest = secret.clone();
    rest.as_object_mut().unwrap().remove("data");
    rest
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .expect("writes name the version that was read")
}

fn found(object: Option<&Value>) -> (u16, Value) {
    object.map_or_else(|| failure(404), |object| (200, object.clone()))
}

fn failure(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "Test" };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "as the test wants it", "reason": reason, "code": code,
    });
    (code, status)
}

/// As it is applied: without data, of the type that the API server gives it.
pub fn empty_secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": "tetris-webhook-tls", "namespace": "tetris-system",
            "labels": {"app.kubernetes.io/name": "tetris-webhook"},
        },
    })
}

/// As it is applied: two webhooks of ours, and another one.
pub fn configuration() -> Value {
    let webhook = |name: &str, service: &str, path: &str| {
        json!({
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": service, "namespace": "tetris-system", "path": path, "port": 443}},
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "tetris-webhook"},
        "webhooks": [
            webhook("pods.tetris.dev", "tetris-webhook", "/mutate"),
            webhook("namespaces.tetris.dev", "tetris-webhook", "/mutate/namespace"),
            webhook("other.example.org", "other", "/"),
        ],
    })
}
