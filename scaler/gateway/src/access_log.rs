//! Access log: one event for each request, at level `info` of the target `access`.

use std::time::Duration;

use hyper::{Method, Request, StatusCode};
use opentelemetry::trace::TraceId;
use tracing::Span;

use crate::client_address::ClientAddress;
use crate::function_name::FunctionName;
use crate::problem::Problem;
use crate::traces::granted;

/// Longest part of a logged path, in bytes.
const PATH: usize = 256;

/// An event that is being filled.
#[derive(Debug)]
pub(crate) struct Entry {
    client: ClientAddress,
    span: Span,
    /// `None` if the log leaves the event out.
    fields: Option<Box<Fields>>,
}

#[derive(Debug)]
struct Fields {
    method: Method,
    path: String,
    function: Option<String>,
    instance: Option<String>,
    trace: Option<TraceId>,
    reason: Option<&'static str>,
    waited: Duration,
}

impl Entry {
    pub(crate) fn new<B>(client: ClientAddress, request: &Request<B>, span: Span) -> Self {
        let fields = tracing::enabled!(target: "access", tracing::Level::INFO).then(|| {
            let path = request.uri().path();
            let end = path.floor_char_boundary(PATH);
            Box::new(Fields {
                method: request.method().clone(),
                path: path.get(..end).unwrap_or_default().to_owned(),
                function: None,
                instance: None,
                trace: None,
                reason: None,
                waited: Duration::ZERO,
            })
        });
        Self {
            client,
            span,
            fields,
        }
    }

    pub(crate) const fn client(&self) -> ClientAddress {
        self.client
    }

    /// Span of the request.
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) fn function(&mut self, name: &FunctionName) {
        self.span.record("function", tracing::field::display(name));
        if let Some(fields) = &mut self.fields {
            fields.function = Some(name.to_string());
        }
    }

    pub(crate) fn instance(&mut self, name: &str, waited: Duration) {
        granted(&self.span, name, waited);
        if let Some(fields) = &mut self.fields {
            fields.instance = Some(name.to_owned());
            fields.waited = waited;
        }
    }

    pub(crate) fn trace(&mut self, trace: TraceId) {
        if let Some(fields) = &mut self.fields {
            fields.trace = Some(trace);
        }
    }

    pub(crate) fn problem(&mut self, problem: &Problem) {
        self.span.record("error.type", problem.reason);
        if let Some(fields) = &mut self.fields {
            fields.reason = Some(problem.reason);
        }
    }

    /// Writes the event. `took` is the time to the head of the response.
    pub(crate) fn answered(self, status: StatusCode, took: Duration) {
        self.span
            .record("http.response.status_code", status.as_u16());
        let Some(fields) = self.fields else { return };
        tracing::info!(
            target: "access",
            client = %self.client.0.ip(),
            method = %fields.method,
            path = fields.path,
            status = status.as_u16(),
            function = fields.function,
            instance = fields.instance,
            reason = fields.reason,
            trace = fields.trace.map(tracing::field::display),
            wait_us = u64::try_from(fields.waited.as_micros()).unwrap_or(u64::MAX),
            head_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
}
