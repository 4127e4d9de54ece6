//! Client of a model server over HTTP.

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::ValueEnum;
use reqwest::{Client, Method, Response, Url};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::error::OipError;
use super::metadata::ModelMetadata;

/// Maximum size of the metadata, in bytes.
const MAX_METADATA_BYTES: usize = 1 << 20;
/// Maximum size of the answer to an inference, in bytes.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// Maximum length of a server's error text in messages.
const TOLD_CHARS: usize = 300;

/// Protocol of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The Open Inference Protocol v2
    #[default]
    Inference,
    /// OpenAI's completions
    #[value(name = "openai")]
    OpenAi,
}

/// Client of one server and model. Clones share connections, which stay open.
#[derive(Clone, Debug)]
pub(crate) struct OipClient {
    http: Client,
    protocol: Protocol,
    server_ready: Url,
    model: Url,
    model_ready: Url,
    infer: Url,
    statistics: Url,
}

impl OipClient {
    /// Creates a client for `model` of the server at `port` of this machine. `timeout` limits each
    /// request.
    pub(crate) fn new(
        port: u16,
        model: &str,
        protocol: Protocol,
        timeout: Duration,
    ) -> Result<Self, OipError> {
        // Another part of the process may have installed a provider; connections here are not
        // encrypted.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder()
            .no_proxy()
            .timeout(timeout)
            .pool_max_idle_per_host(usize::MAX)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()
            .map_err(OipError::Client)?;
        let of_model = |part: &[&str]| url(port, &[&["v2", "models", model], part].concat());
        let (server_ready, model_ready, infer) = match protocol {
            Protocol::Inference => (
                url(port, &["v2", "health", "ready"])?,
                of_model(&["ready"])?,
                of_model(&["infer"])?,
            ),
            // A server lists the models that it serves; before, it does not answer or refuses.
            Protocol::OpenAi => (
                url(port, &["v1", "models"])?,
                url(port, &["v1", "models"])?,
                url(port, &["v1", "completions"])?,
            ),
        };
        Ok(Self {
            http,
            protocol,
            server_ready,
            model_ready,
            infer,
            model: of_model(&[])?,
            statistics: of_model(&["stats"])?,
        })
    }

    /// Succeeds if server and model are ready.
    pub(crate) async fn ready(&self) -> Result<(), OipError> {
        for url in [&self.server_ready, &self.model_ready] {
            self.ask(Method::GET, url, None, MAX_METADATA_BYTES).await?;
        }
        Ok(())
    }

    /// Returns the server's protocol.
    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Fetches the model's inputs.
    pub(crate) async fn metadata(&self) -> Result<ModelMetadata, OipError> {
        let answer = self
            .ask(Method::GET, &self.model, None, MAX_METADATA_BYTES)
            .await?;
        ModelMetadata::parse(&answer).map_err(|error| malformed(&self.model, error.to_string()))
    }

    /// Fetches the model's statistics, as Triton's extension of the protocol has them.
    pub(crate) async fn statistics(&self) -> Result<Vec<u8>, OipError> {
        let max = MAX_METADATA_BYTES;
        self.ask(Method::GET, &self.statistics, None, max).await
    }

    /// Sends one inference and reads its answer to the end.
    pub(crate) async fn infer(&self, body: &[u8]) -> Result<Vec<u8>, OipError> {
        self.ask(Method::POST, &self.infer, Some(body), MAX_ANSWER_BYTES)
            .await
    }

    /// Sends one inference and checks that its answer has outputs, or choices.
    pub(crate) async fn checked_infer(&self, body: &[u8]) -> Result<(), OipError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(alias = "choices")]
            outputs: Vec<IgnoredAny>,
        }
        let answer = self.infer(body).await?;
        let parsed = serde_json::from_slice::<Answer>(&answer);
        let parsed = parsed.map_err(|error| malformed(&self.infer, error.to_string()))?;
        if parsed.outputs.is_empty() {
            return Err(malformed(&self.infer, "found no outputs".to_owned()));
        }
        Ok(())
    }

    async fn ask(
        &self,
        method: Method,
        url: &Url,
        body: Option<&[u8]>,
        max: usize,
    ) -> Result<Vec<u8>, OipError> {
        let path = || url.path().to_owned();
        let failed = |source| OipError::Http {
            path: path(),
            source,
        };
        let mut request = self.http.request(method, url.clone());
        if let Some(body) = body {
            let json = ("content-type", "application/json");
            request = request.header(json.0, json.1).body(body.to_vec());
        }
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let answer = bounded(response, max).await.map_err(failed)?;
        match answer {
            None => Err(OipError::Long { path: path(), max }),
            Some(answer) if status.is_success() => Ok(answer),
            Some(answer) => Err(OipError::Status {
                path: path(),
                status: status.as_u16(),
                body: told(&answer),
            }),
        }
    }
}

/// Reads the body; returns `None` if it is longer than `max`.
async fn bounded(mut response: Response, max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len().saturating_add(chunk.len()) > max {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Returns the beginning of an answer, on one line.
fn told(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer.get(..4 * TOLD_CHARS).unwrap_or(answer));
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    text.take(TOLD_CHARS).collect()
}

fn malformed(url: &Url, reason: String) -> OipError {
    OipError::Malformed {
        path: url.path().to_owned(),
        reason,
    }
}

/// Builds a URL from path segments; it escapes characters of the model's name.
fn url(port: u16, segments: &[&str]) -> Result<Url, OipError> {
    let base = format!("http://{}:{port}/", Ipv4Addr::LOCALHOST);
    let wrong = || OipError::Malformed {
        path: base.clone(),
        reason: "not a URL".to_owned(),
    };
    let mut url = Url::parse(&base).map_err(|_| wrong())?;
    url.path_segments_mut()
        .map_err(|()| wrong())?
        .pop_if_empty()
        .extend(segments);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_are_escaped() {
        let url = url(80, &["v2", "models", "org/a b?", "ready"]).unwrap();
        assert_eq!(url.path(), "/v2/models/org%2Fa%20b%3F/ready");
    }

    #[test]
    fn errors_are_told_on_one_line_and_in_part() {
        assert_eq!(told(b"{\"error\":\n\"bad\"}"), "{\"error\": \"bad\"}");
        assert_eq!(told(&[b'x'; 10_000]).len(), TOLD_CHARS);
    }
}
