//! The API server over one connection: many small requests of simulated nodes would be as many processes of kubectl.

use anyhow::Result;
use http::{Method, Request};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A client with the rights of the kubeconfig.
pub struct Api {
    runtime: Runtime,
    client: Client,
}

impl Api {
    pub fn new() -> Result<Self> {
        let runtime = Runtime::new()?;
        let client = runtime.block_on(async {
            Ok::<_, anyhow::Error>(Client::try_from(Config::infer().await?)?)
        })?;
        Ok(Self { runtime, client })
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.ask(&Method::GET, path, "application/json", None)
    }

    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.ask(&Method::POST, path, "application/json", Some(object))
    }

    /// Changes the fields of an object.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        let kind = "application/merge-patch+json";
        self.ask(&Method::PATCH, path, kind, Some(patch))
    }

    /// Deletes an object at once.
    pub fn delete(&self, path: &str) -> Result<Value> {
        let path = format!("{path}?gracePeriodSeconds=0");
        self.ask(&Method::DELETE, &path, "application/json", None)
    }

    fn ask(&self, method: &Method, path: &str, kind: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("content-type", kind)
            .body(body)?;
        Ok(self.runtime.block_on(self.client.request(request))?)
    }
}
