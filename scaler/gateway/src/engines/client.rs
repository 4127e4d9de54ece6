//! Requests of the gateway's own to an engine: its state, and orders to sleep and wake up.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use tetris_scaler_dispatch::engines::Finding;
use thiserror::Error;
use tracing::Instrument as _;

use super::engine::Engine;
use super::settings::SleepLevel;
use crate::pool::{ConnectError, SendError};
use crate::traces;

/// Longest time of a question for the state.
const QUESTION: Duration = Duration::from_secs(2);
/// Longest answer, in bytes.
const ANSWER: usize = 16 << 10;
/// Characters of an answer in a log.
const SHOWN: usize = 200;

/// The reason an engine did not do what the gateway asked of it.
#[derive(Debug, Error)]
pub(super) enum EngineError {
    /// Nothing listens at its address.
    #[error("{path}: nothing listens at the engine's address: {source}; start the engine")]
    NoProcess {
        path: &'static str,
        source: io::Error,
    },
    /// No answer, or not a whole one.
    #[error("{path}: no answer: {reason}")]
    NoAnswer { path: &'static str, reason: String },
    /// No answer in time.
    #[error("{path}: no answer within {limit:?}")]
    TimedOut { path: &'static str, limit: Duration },
    /// An answer with the status of an error.
    #[error("{path}: expected status 200, found {status}: {answer}")]
    Refused {
        path: &'static str,
        status: StatusCode,
        answer: String,
    },
    /// An engine without the path.
    #[error(
        "{path}: expected status 200, found {status}: the engine does not have the path; start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1"
    )]
    NoPath {
        path: &'static str,
        status: StatusCode,
    },
    /// Another server's answer.
    #[error("{path}: expected {{\"is_sleeping\": true or false}}, found {answer}")]
    NotAState { path: &'static str, answer: String },
}

impl EngineError {
    /// The fact about the engine behind the error of a question.
    pub(super) const fn finding(&self) -> Finding {
        match self {
            Self::NoProcess { .. } => Finding::NoProcess,
            Self::NoAnswer { .. } | Self::TimedOut { .. } | Self::Refused { .. } => Finding::Silent,
            Self::NoPath { .. } | Self::NotAState { .. } => Finding::NoPaths,
        }
    }
}

#[derive(Deserialize)]
struct State {
    is_sleeping: bool,
}

/// Asks an engine whether it sleeps.
pub(super) async fn is_sleeping(engine: &Engine) -> Result<Finding, EngineError> {
    let path = "/is_sleeping";
    let calling = call(engine, Method::GET, path, "");
    let answer = limited(path, QUESTION, calling).await?;
    match serde_json::from_slice(&answer) {
        Ok(State { is_sleeping: true }) => Ok(Finding::Asleep),
        Ok(State { is_sleeping: false }) => Ok(Finding::Awake),
        Err(_) => Err(EngineError::NotAState {
            path,
            answer: shown(&answer),
        }),
    }
}

/// Orders an engine to sleep, and waits until it does.
pub(super) async fn sleep(
    engine: &Engine,
    level: SleepLevel,
    limit: Duration,
) -> Result<(), EngineError> {
    let path = match level {
        SleepLevel::One => "/sleep?level=1",
        SleepLevel::Two => "/sleep?level=2",
    };
    order(engine, "sleep", limit, &[(path, "")]).await
}

/// Orders an engine to wake up, and waits until it has. After a sleep of level 2 it must read its weights again, between the two
/// parts of its memory.
pub(super) async fn wake(
    engine: &Engine,
    level: SleepLevel,
    limit: Duration,
) -> Result<(), EngineError> {
    let steps: &[_] = match level {
        SleepLevel::One => &[("/wake_up", "")],
        SleepLevel::Two => &[
            ("/wake_up?tags=weights", ""),
            ("/collective_rpc", r#"{"method": "reload_weights"}"#),
            ("/wake_up?tags=kv_cache", ""),
        ],
    };
    order(engine, "wake", limit, steps).await
}

async fn order(
    engine: &Engine,
    order: &'static str,
    limit: Duration,
    steps: &[(&'static str, &'static str)],
) -> Result<(), EngineError> {
    let (model, instance) = (engine.model(), &engine.settings.name);
    let span = tracing::debug_span!("order", otel.kind = "client", order, model, instance);
    let (first, _) = steps.first().copied().unwrap_or_default();
    let calling = async {
        for (path, body) in steps {
            call(engine, Method::POST, path, body).await?;
        }
        Ok(())
    };
    limited(first, limit, calling).instrument(span).await
}

async fn limited<T>(
    path: &'static str,
    limit: Duration,
    calling: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let called = tokio::time::timeout(limit, calling).await;
    called.unwrap_or(Err(EngineError::TimedOut { path, limit }))
}

/// Sends a request, and returns the answer of status 200.
async fn call(
    engine: &Engine,
    method: Method,
    path: &'static str,
    body: &'static str,
) -> Result<Bytes, EngineError> {
    let no_answer = |reason: String| EngineError::NoAnswer { path, reason };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, engine.endpoint.address.to_string())
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .map_err(|error| no_answer(error.to_string()))?;
    if !body.is_empty() {
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
    }
    traces::follow(request.headers_mut());
    let (response, connection) = match engine.endpoint.pool.send(Box::new(request)).await {
        Ok(sent) => sent,
        Err(SendError::NotSent {
            problem: ConnectError::Io(source),
            ..
        }) if source.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(EngineError::NoProcess { path, source });
        }
        Err(error) => return Err(no_answer(error.to_string())),
    };
    let status = response.status();
    let answer = Limited::new(response.into_body(), ANSWER).collect().await;
    let answer = answer.map_err(|error| no_answer(error.to_string()))?;
    if let Some(connection) = connection {
        engine.endpoint.pool.give_back(connection);
    }
    let answer = answer.to_bytes();
    match status {
        StatusCode::OK => Ok(answer),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            Err(EngineError::NoPath { path, status })
        }
        _ => Err(EngineError::Refused {
            path,
            status,
            answer: shown(&answer),
        }),
    }
}

/// The beginning of an engine's answer, for a log.
fn shown(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer.get(..SHOWN).unwrap_or(answer));
    let visible = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().map(visible).collect()
}
