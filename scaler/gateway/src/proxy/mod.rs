//! Requests: from the client to an instance, and the answer back.

pub(crate) mod answer;
mod body;
mod decision;
mod grpc_model;
pub(crate) mod headers;
mod models;
mod openai_model;
mod response_body;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, StatusCode, Uri, Version};
use tetris_service_kit::pace::Pace;
use tracing::Instrument as _;

use crate::access_log::Entry;
use crate::callers::Callers;
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::function::{Function, Grant};
use crate::memory::Memory;
use crate::metrics::{Arrival, Dispatch, Metrics, RequestOutcome};
use crate::normal_path::normalise;
use crate::pool::{ConnectError, RequestBody, SendError};
use crate::problem::{Problem, shortened};
use crate::routes::{Routes, Target};
use crate::traces;

use answer::{Dialect, refused};
use body::WholeBody;
pub(crate) use body::{Bodies, BodyCharge, Payer};
pub use response_body::{BrokenOff, ResponseBody};
use response_body::{Ending, ResponseLimits};

/// Number of instances tried for one request, the first included.
const ATTEMPTS: usize = 5;
/// Head of a request with the time for which its client waits at most, in milliseconds.
pub(crate) const WAIT: HeaderName = HeaderName::from_static("tetris-wait-ms");

/// Body of a request.
enum ClientBody {
    Coming(Incoming),
    Read(WholeBody),
}

/// The proxy. Clones share everything.
#[derive(Clone, Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    routes: RwLock<Arc<Routes>>,
    bodies: Bodies,
    /// Largest number of header fields of a response.
    header_fields: usize,
    timeouts: Timeouts,
    metrics: Arc<Metrics>,
    memory: Memory,
    /// `None` if functions are those of a file, which are for all who reach the gateway.
    callers: Option<Arc<Callers>>,
}

impl Proxy {
    /// Creates a proxy without routes.
    pub fn new(limits: &Limits, timeouts: Timeouts, metrics: Arc<Metrics>, memory: Memory) -> Self {
        Self::among(limits, timeouts, metrics, memory, None)
    }

    /// Creates a proxy without routes that admits `callers`.
    pub(crate) fn among(
        limits: &Limits,
        timeouts: Timeouts,
        metrics: Arc<Metrics>,
        memory: Memory,
        callers: Option<Arc<Callers>>,
    ) -> Self {
        let pace = Pace {
            grace: timeouts.body(),
            bytes_per_second: limits.bytes_per_second,
        };
        let bodies = Bodies::new(limits.body_bytes, pace, &memory);
        Self {
            shared: Arc::new(Shared {
                routes: RwLock::default(),
                bodies,
                header_fields: limits.header_fields,
                timeouts,
                metrics,
                memory,
                callers,
            }),
        }
    }

    /// Replaces the routes. Requests that wait stay with their function.
    pub fn set_routes(&self, routes: &Arc<Routes>) {
        *self
            .shared
            .routes
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::clone(routes);
        self.shared.metrics.keep(routes);
    }

    /// Routes in force.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(
            &self
                .shared
                .routes
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Answers a request. The request and its parts are on the heap: hyper copies the future, and with it
    /// what it holds.
    pub async fn answer(
        &self,
        client: ClientAddress,
        request: Box<Request<Incoming>>,
    ) -> Response<ResponseBody> {
        let began = Instant::now();
        let dialect = Dialect::of(&request);
        let span = traces::span(&request);
        let mut entry = Entry::new(client, &request, span.clone());
        let answered = self.forward(request, &mut entry).instrument(span).await;
        let response = answered.unwrap_or_else(|problem| {
            entry.problem(&problem);
            dialect.answer(&problem)
        });
        entry.answered(response.status(), began.elapsed());
        response
    }

    /// Answers a request that the gateway has no room for.
    pub(crate) fn refuse<B>(
        &self,
        client: ClientAddress,
        request: &Request<B>,
        problem: &Problem,
    ) -> Response<ResponseBody> {
        let mut entry = Entry::new(client, request, traces::span(request));
        entry.problem(problem);
        self.shared.metrics.not_admitted(problem);
        let response = Dialect::of(request).answer(problem);
        entry.answered(response.status(), Duration::ZERO);
        response
    }

    /// Budgets of the process.
    pub(crate) fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    async fn forward(
        &self,
        request: Box<Request<Incoming>>,
        entry: &mut Entry,
    ) -> Result<Response<ResponseBody>, Problem> {
        let (parts, incoming) = request.into_parts();
        let mut parts = Box::new(parts);
        headers::check(&parts)?;
        normalise(&mut parts.uri)?;
        let (target, body) = match self.target(&parts) {
            Ok(target) => (target, ClientBody::Coming(incoming)),
            Err(problem) if grpc_model::is_named_by(&parts) => {
                // The head does not say for whom it is.
                let payer = Payer::client(entry.client());
                let body = Box::pin(self.shared.bodies.read(&parts, incoming, payer)).await?;
                let model = grpc_model::model(&body.bytes);
                let target = model.and_then(|model| self.routes().find_model(&model));
                (target.ok_or(problem)?, ClientBody::Read(body))
            }
            Err(problem) => {
                let routes = self.routes();
                if let Some(models) = models::answer(&routes, &parts) {
                    return models;
                }
                if !openai_model::is_named_by(&routes, &parts) {
                    return Err(problem);
                }
                let payer = Payer::client(entry.client());
                let body = Box::pin(self.shared.bodies.read(&parts, incoming, payer)).await?;
                let target = {
                    let model = openai_model::model(&body.bytes)?;
                    let target = routes.find_openai_model(&model);
                    target.ok_or_else(|| openai_model::unknown(&model))?
                };
                (target, ClientBody::Read(body))
            }
        };
        let arrival = self.shared.metrics.arrived(target.function.name());
        self.to_function(&target, parts, body, &arrival, entry)
            .await
            .inspect_err(|problem| arrival.refused(problem))
    }

    /// Sends a request to an instance of its function, once there is one for it.
    async fn to_function(
        &self,
        target: &Target,
        mut parts: Box<Parts>,
        body: ClientBody,
        arrival: &Arrival,
        entry: &mut Entry,
    ) -> Result<Response<ResponseBody>, Problem> {
        let arrived_at = Instant::now();
        let function = &target.function;
        entry.function(function.name());
        self.admit(target, &mut parts, entry.client()).await?;
        if let Some(path) = &target.path {
            parts.uri = Uri::from(path.clone());
        }
        if let Some(asked) = parts.uri.path_and_query()
            && let Some(path) = function.path(asked)?
        {
            parts.uri = Uri::from(path);
        }
        let payer = Payer::client(entry.client()).and(function);
        let body = match body {
            ClientBody::Coming(incoming) => {
                self.shared.bodies.read(&parts, incoming, payer).await?
            }
            ClientBody::Read(body) => self.shared.bodies.charge_function(body, payer)?,
        };
        let wait = wait_of(&parts)?;
        arrival.admitted();
        let candidates = decision::candidates(function, entry.span());
        let granted = function.acquire(wait).await;
        let grant = granted.map_err(|refusal| refused(function.name(), &refusal))?;
        decision::dispatched(candidates.as_deref(), &grant);
        headers::for_instance(&mut parts, entry.client(), body.bytes.len());
        entry.trace(traces::pass_on(&mut parts.headers, entry.span()));
        let request = Request::from_parts(*parts, Full::new(body.into_bytes()));
        let request = Box::new(request);
        self.send(function, grant, request, (arrival, arrived_at), entry)
            .await
    }

    /// Admits a request to its function, by its path and its caller. Takes a token for the gateway out of its head.
    ///
    /// # Errors
    ///
    /// The answer to a request that the function is not for.
    pub(crate) async fn admit(
        &self,
        target: &Target,
        parts: &mut Parts,
        client: ClientAddress,
    ) -> Result<(), Problem> {
        let function = &target.function;
        let access = function.access();
        let path = target
            .path
            .as_ref()
            .map_or(parts.uri.path(), PathAndQuery::path);
        access.check_path(function.name(), &parts.method, path)?;
        let Some(callers) = &self.shared.callers else {
            return Ok(());
        };
        let (name, allowed) = (function.name(), &access.callers);
        // Few requests wait for a review: its part of the future is on the heap.
        let admitted = callers.admit(name, allowed, client.0.ip(), &mut parts.headers);
        Box::pin(admitted).await
    }

    /// Limits of bodies, with their common budget.
    pub(crate) fn bodies(&self) -> &Bodies {
        &self.shared.bodies
    }

    /// Returns the function of a request.
    pub(crate) fn target(&self, parts: &Parts) -> Result<Target, Problem> {
        let routes = self.routes();
        let path = parts.uri.path_and_query();
        let host = headers::host(parts);
        let target = path.and_then(|path| routes.find(path, host));
        target.ok_or_else(|| {
            let shown = format!(
                "{} on host {}",
                shortened(parts.uri.path()),
                shortened(host.unwrap_or("(none)"))
            );
            let problem = format!(
                "no function for {shown}; use /functions/NAME/..., the host of a function, or a model that a function names"
            );
            Problem::new(StatusCode::NOT_FOUND, "not-found", problem)
        })
    }

    /// Sends a request to the granted instance, or to others while nothing of it was sent.
    async fn send(
        &self,
        function: &Arc<Function>,
        mut grant: Grant,
        mut request: Box<Request<RequestBody>>,
        (arrival, arrived_at): (&Arrival, Instant),
        entry: &mut Entry,
    ) -> Result<Response<ResponseBody>, Problem> {
        let span = entry.span().clone();
        let mut attempt = 1;
        loop {
            let endpoint = Arc::clone(grant.endpoint());
            entry.instance(&endpoint.name, grant.waited());
            arrival.waited(grant.waited());
            let sent_at = Instant::now();
            headers::address(&mut request, endpoint.address);
            // Only a request that may be sent twice is copied.
            let copy = grant.repeats().then(|| request.clone());
            let limit = self.shared.timeouts.response();
            let mut cut = grant.take_cut();
            let answered = tokio::select! {
                biased;
                answered = tokio::time::timeout(limit, endpoint.pool.send(request)) => Some(answered),
                () = cut.wait() => None,
            };
            let dispatched = || {
                arrival.dispatched(Dispatch {
                    configuration: &endpoint.configuration,
                    arrived_at,
                    sent_at,
                    slo: function.slo(),
                    span: &span,
                })
            };
            // The request if another instance may get it, and the answer if none may.
            let (again, problem) = match answered {
                None => {
                    dispatched().ended(RequestOutcome::Cut);
                    return Err(cut_off(&endpoint.name));
                }
                Some(Ok(Ok((response, connection)))) => {
                    if let Some(problem) = self.not_a_response(&response, &endpoint.name) {
                        dispatched().ended(RequestOutcome::Broken);
                        (None, problem)
                    } else {
                        let ending = Ending {
                            grant: Some(grant),
                            connection,
                            counted: dispatched(),
                            failed: is_gateway_fault(response.status()),
                        };
                        let limits = self.response_limits(arrived_at);
                        return Ok(headers::for_client(response, |body| {
                            ResponseBody::of_instance(body, ending, limits, cut)
                        }));
                    }
                }
                Some(Ok(Err(SendError::NotSent {
                    request: unsent,
                    problem,
                }))) => {
                    arrival.unreachable();
                    (Some(unsent), unreachable(&problem))
                }
                Some(Ok(Err(SendError::Broken(problem)))) => {
                    dispatched().ended(RequestOutcome::Broken);
                    let problem = format!("the instance {} broke off: {problem}", endpoint.name);
                    let problem = Problem::new(StatusCode::BAD_GATEWAY, "broken", problem);
                    (copy, problem)
                }
                Some(Err(_)) => {
                    dispatched().ended(RequestOutcome::Timeout);
                    let problem = format!(
                        "the instance {} sent no response within {limit:?}",
                        endpoint.name
                    );
                    let problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", problem);
                    (None, problem)
                }
            };
            let Some(again) = again.filter(|_| attempt < ATTEMPTS) else {
                grant.failed();
                return Err(problem);
            };
            tracing::debug!(function = %function.name(), instance = endpoint.name, attempt, reason = problem.reason, "sent again");
            request = again;
            attempt += 1;
            let granted = Box::pin(grant.unreachable()).await;
            grant = granted.map_err(|refusal| refused(function.name(), &refusal))?;
        }
    }
}

/// The answer to a request whose engine had to sleep before it answered.
fn cut_off(engine: &str) -> Problem {
    let problem = format!(
        "the engine {engine} had to make room for another one before it answered (drain); try again"
    );
    Problem::unavailable("cut", problem, Duration::from_secs(1))
}

/// The answer when no instance could be reached.
fn unreachable(problem: &ConnectError) -> Problem {
    let problem = format!("{ATTEMPTS} instances could not be reached, the last one: {problem}");
    Problem::unavailable("unreachable", problem, Duration::from_secs(1))
}

impl Proxy {
    /// The reason that the head of an instance is none of a response: then its connection ends.
    fn not_a_response<B>(&self, response: &Response<B>, instance: &str) -> Option<Problem> {
        let status = response.status();
        let fields = response.headers().len();
        let problem = if status.is_informational() {
            // What follows is of another protocol, which no client was let ask for.
            format!("the instance {instance} sent the status {status}, expected that of a response")
        } else if fields > self.shared.header_fields {
            let most = self.shared.header_fields;
            format!(
                "the instance {instance} sent {fields} header fields, expected {most} at most (limits.headers)"
            )
        } else {
            return None;
        };
        Some(Problem::new(StatusCode::BAD_GATEWAY, "broken", problem))
    }

    fn response_limits(&self, arrived_at: Instant) -> ResponseLimits {
        let stay = self.shared.timeouts.request();
        let until = arrived_at.checked_add(stay);
        // Beyond the clock's end there is no limit.
        let until = until.unwrap_or_else(|| arrived_at + Duration::from_hours(24 * 365));
        ResponseLimits {
            idle: self.shared.timeouts.idle(),
            stay,
            until: until.into(),
        }
    }
}

/// Returns true if a status means that the instance, or a proxy in it, could not serve.
pub(crate) fn is_gateway_fault(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Reads the client's longest wait.
pub(crate) fn wait_of(parts: &Parts) -> Result<Option<Duration>, Problem> {
    let Some((_, value)) = parts.headers.iter().find(|(name, _)| **name == WAIT) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    if let Ok(ms) = text.parse::<u32>() {
        return Ok(Some(Duration::from_millis(ms.into())));
    }
    let problem = format!(
        "header {WAIT}: expected a number of milliseconds, found `{}`",
        shortened(text)
    );
    Err(Problem::new(
        StatusCode::BAD_REQUEST,
        "bad-request",
        problem,
    ))
}

/// True for requests that go on by HTTP/2: gRPC has no other form.
fn is_grpc(headers: &hyper::HeaderMap, version: Version) -> bool {
    if version != Version::HTTP_2 {
        return false;
    }
    let kind = headers.get(hyper::header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, F: Future>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_that_hyper_copies_for_each_request_is_small() {
        fn answer(proxy: &Proxy, request: Box<Request<Incoming>>) -> impl Future + use<'_> {
            proxy.answer(ClientAddress(([127, 0, 0, 1], 80).into()), request)
        }
        assert!(size(answer) <= 2 << 10, "{} bytes", size(answer));
    }
}
