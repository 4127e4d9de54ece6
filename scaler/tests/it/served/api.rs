//! A simulated API server of leases and Deployments with versions, and of other written objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock;

#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<String, Value>,
    /// Requests: method, path and query, body.
    pub asked: Vec<(Method, String, Value)>,
    /// Status of all answers, for a failing server.
    pub fails_with: Option<u16>,
    version: u64,
}

#[derive(Clone, Default)]
pub struct Api(Arc<Mutex<State>>);

impl Api {
    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub fn client(&self) -> kube::Client {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let api = self.clone();
        tokio::spawn(async move {
            while let Some((request, answer)) = handle.next_request().await {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let uri = parts.uri.to_string();
                let (code, object) = api.with(|state| state.answer(&parts.method, &uri, &body));
                let object = object.to_string().into_bytes();
                let response = Response::builder().status(code).body(Body::from(object));
                answer.send_response(response.unwrap());
            }
        });
        kube::Client::new(service, "default")
    }
}

impl State {
    fn answer(&mut self, method: &Method, uri: &str, body: &Value) -> (u16, Value) {
        let path = uri
            .split('?')
            .next()
            .unwrap()
            .trim_end_matches("/status")
            .to_owned();
        self.asked
            .push((method.clone(), uri.to_owned(), body.clone()));
        if let Some(code) = self.fails_with {
            return failure(code);
        }
        let present = self.objects.get(&path).cloned();
        let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
        let is_old =
            |present: &Value| !version(body).is_null() && version(body) != version(present);
        match (method.as_str(), present) {
            ("GET", Some(present)) => (200, present),
            ("POST", _) if path.ends_with("/token") => (201, token(&path, body)),
            ("POST", _) => {
                let name = body["metadata"]["name"]
                    .as_str()
                    .unwrap_or("event")
                    .to_owned();
                self.store(&format!("{path}/{name}"), body.clone())
            }
            ("PUT" | "PATCH", Some(present)) if is_old(&present) => failure(409),
            ("PUT", Some(_)) => self.store(&path, body.clone()),
            ("PATCH", Some(mut present)) => {
                merge(&mut present, body);
                self.store(&path, present)
            }
            ("PATCH", None) if uri.contains("force=true") => self.store(&path, body.clone()),
            ("DELETE", Some(present)) => {
                self.objects.remove(&path);
                (200, present)
            }
            _ => failure(404),
        }
    }

    pub fn store(&mut self, path: &str, mut object: Value) -> (u16, Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        (200, object)
    }
}

fn merge(into: &mut Value, from: &Value) {
    let Value::Object(from) = from else {
        *into = from.clone();
        return;
    };
    for (key, value) in from {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

/// Returns a token whose text names its account and its audience.
fn token(path: &str, request: &Value) -> Value {
    let account = path.rsplit('/').nth(1).unwrap();
    let audience = request["spec"]["audiences"][0].as_str().unwrap();
    let token = format!("{account}={audience}");
    let mut answer = request.clone();
    answer["status"] = json!({"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"});
    answer
}

fn failure(code: u16) -> (u16, Value) {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "Test",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "as the test wants it", "reason": reason, "code": code,
    });
    (code, status)
}
