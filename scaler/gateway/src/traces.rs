//! Traces by the W3C's headers: each request gets a span of the gateway, in its client's trace or in
//! a new one (Trace Context, level 1).

use std::time::Duration;

use hyper::Request;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tetris_service_kit::traces::OpenTelemetrySpanExt as _;
use tracing::Span;
use tracing::field::Empty;

use crate::clock::micros;

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Span of a request, in its client's trace. Disabled if no spans are recorded.
pub(crate) fn span<B>(request: &Request<B>) -> Span {
    let span = tracing::debug_span!(
        "request",
        otel.kind = "server",
        http.request.method = request.method().as_str(),
        http.response.status_code = Empty,
        error.type = Empty,
        function = Empty,
        instance = Empty,
        wait_us = Empty,
        outcome = Empty,
    );
    if !span.is_disabled()
        && let Some(parent) = parent(request.headers())
    {
        let parent = Context::new().with_remote_span_context(parent);
        // Without a collector the span is of the log only.
        let _has_a_trace = span.set_parent(parent);
    }
    span
}

/// Adds the instance of a request to its span.
pub(crate) fn granted(span: &Span, instance: &str, waited: Duration) {
    span.record("instance", instance);
    span.record("wait_us", micros(waited));
}

/// Returns true if the sampler leaves out the span's trace.
pub(crate) fn is_left_out(span: &Span) -> bool {
    let recorded = recorded(span);
    recorded.is_valid() && !recorded.is_sampled()
}

/// The span as a collector knows it; invalid without one.
fn recorded(span: &Span) -> SpanContext {
    if span.is_disabled() {
        return SpanContext::NONE;
    }
    span.context().span().span_context().clone()
}

/// Puts the gateway's span in the place of the client's, and returns the trace's identifier. An unrecorded span has an
/// identifier all the same, by which an instance's spans belong together.
pub(crate) fn pass_on(headers: &mut HeaderMap, span: &Span) -> TraceId {
    let recorded = recorded(span);
    let passed_on = if recorded.is_valid() {
        recorded
    } else {
        let parent = parent(headers).unwrap_or_else(new_trace);
        SpanContext::new(
            parent.trace_id(),
            SpanId::from(rand::random::<u64>() | 1),
            parent.trace_flags(),
            false,
            parent.trace_state().clone(),
        )
    };
    let trace = passed_on.trace_id();
    // The state belongs to a trace that could be read.
    headers.remove(STATE);
    let context = Context::new().with_remote_span_context(passed_on);
    TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(headers));
    if headers.get(STATE).is_some_and(HeaderValue::is_empty) {
        headers.remove(STATE);
    }
    trace
}

/// Puts the current span into the head of a request of the gateway's own. Nothing if no spans are recorded.
pub(crate) fn follow(headers: &mut HeaderMap) {
    let span = Span::current();
    if !span.is_disabled() {
        pass_on(headers, &span);
    }
}

/// The span of a client. A request with two of them has none.
fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    let mut values = headers.get_all(PARENT).iter();
    values.next().filter(|_| values.next().is_none())?;
    let context = TraceContextPropagator::new()
        .extract_with_context(&Context::new(), &HeaderExtractor(headers));
    let parent = context.span().span_context().clone();
    parent.is_valid().then_some(parent)
}

fn new_trace() -> SpanContext {
    SpanContext::new(
        TraceId::from(rand::random::<u128>() | 1),
        SpanId::INVALID,
        TraceFlags::NOT_SAMPLED,
        false,
        TraceState::NONE,
    )
}

#[cfg(test)]
mod tests {

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn after(values: &[&str]) -> (String, HeaderMap) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PARENT, value.parse().unwrap());
        }
        headers.insert(STATE, HeaderValue::from_static("a=1"));
        (pass_on(&mut headers, &Span::none()).to_string(), headers)
    }

    #[test]
    fn a_request_stays_in_its_trace_with_a_span_of_the_gateway() {
        for version in ["00", "01"] {
            let value = format!("{version}-{TRACE}-00f067aa0ba902b7-01");
            let (trace, headers) = after(&[&value]);
            let parent = headers[PARENT].to_str().unwrap();
            assert_eq!(trace, TRACE);
            assert!(
                parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01"),
                "{parent}"
            );
            assert!(!parent.contains("00f067aa0ba902b7") && headers[STATE] == "a=1");
        }
    }

    #[test]
    fn what_is_no_trace_begins_a_new_one_without_the_state() {
        let zero = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let longer = format!("{good}-x");
        for values in [
            &[][..],
            &["x"],
            &[&zero],
            &[&good, &good],
            &[&longer],
            &["ff-1-2-3"],
        ] {
            let (trace, headers) = after(values);
            assert_ne!(trace, TRACE);
            let passed_on = parent(&headers).unwrap();
            assert_eq!(passed_on.trace_id().to_string(), trace);
            assert!(!headers.contains_key(STATE), "{values:?}");
        }
    }
}
