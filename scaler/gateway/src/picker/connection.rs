//! Connection of a data plane: HTTP/2 within limits, one stream for each request.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt as _;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tetris_service_kit::budget::Budget;
use tetris_service_kit::pace::Pace;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, Instant, sleep, timeout};
use tonic::codegen::Service as _;
use tonic::{Status, body::Body};

use super::answers::Answers;
use super::health::Checks;
use super::inbound::Wire;
use super::parts::Picker;
use super::places::Places;
use super::stream;
use super::wire::health::health_server::HealthServer;
use crate::bounded_reads::BoundedReads;
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::memory;
use crate::server::{Activity, ClientStream, CountedBody, Ledger, StreamProgress, StreamTasks};

/// Path of calls of external processing.
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/// Size of the head of a call.
const CALL_HEAD_BYTES: u32 = 16 << 10;
/// Size of the question of a health check.
const CHECK_BYTES: usize = 1 << 10;
/// Bytes of messages that one stream, and one connection, may have on their way. A connection carries all streams of
/// a data plane's thread: some that are not read must not stop the others.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of answers that h2 keeps for a data plane.
const SEND_BUFFER: usize = 64 << 10;
/// Memory of a connection without its streams: buffers of frames, tables of header fields, and messages on their way.
const CONNECTION: usize = (48 << 10) + CONNECTION_WINDOW as usize;
/// Memory of a stream that is not answered yet: the head of its call, and its place in tables.
const STREAM: usize = 4 << 10;
/// Memory of a stream that is answered, besides `STREAM` and its messages: its task, queues and buffers. A stream was
/// seen to take 15.5 KiB in all.
const CALL: usize = 12 << 10;
/// Faults of a data plane's streams after which its connection ends.
const FAULTS: usize = 256;
/// Interval in which the picker looks whether the data plane is still there.
const PING: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest interval between two looks whether a connection is idle, or does not read.
const LOOK: Duration = Duration::from_secs(4);
/// Answers that wait for a slow data plane. Then its messages wait, too.
const ANSWERS: usize = 4;

/// Parts that all connections share.
#[derive(Debug)]
pub(super) struct Service {
    picker: Picker,
    limits: Limits,
    timeouts: Timeouts,
    reading: Pace,
    places: Places,
    health: HealthServer<Checks>,
}

impl Service {
    pub(super) fn new(picker: Picker, limits: Limits, timeouts: Timeouts) -> Self {
        let health = Checks {
            ready: Arc::clone(&picker.ready),
        };
        Self {
            places: Places::new(limits.connections),
            health: HealthServer::new(health).max_decoding_message_size(CHECK_BYTES),
            reading: Pace {
                grace: timeouts.read(),
                bytes_per_second: limits.bytes_per_second,
            },
            picker,
            limits,
            timeouts,
        }
    }

    fn builder(streams: u32, tasks: StreamTasks) -> http2::Builder<StreamTasks> {
        let mut http2 = http2::Builder::new(tasks);
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_local_error_reset_streams(FAULTS)
            .max_concurrent_streams(streams)
            .max_header_list_size(CALL_HEAD_BYTES)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT);
        http2
    }

    /// Charges a connection, with as many streams as its data plane has memory for.
    fn open(&self, data_plane: ClientAddress) -> Option<(Arc<Ledger>, u32)> {
        let budget: &Budget<_> = &self.picker.proxy.memory().heads;
        let client = memory::client(data_plane.0.ip());
        let mut streams = self.limits.streams;
        while streams > 0 {
            let bytes = STREAM.saturating_mul(streams as usize);
            let bytes = bytes.saturating_add(CONNECTION);
            if let Ok(ledger) = Ledger::open(budget, client, bytes, self.reading) {
                return Some((ledger, streams));
            }
            streams /= 2;
        }
        None
    }

    /// Answers a call. A stream of a request goes on in its own task, which no data plane can hold up.
    async fn answer(
        self: Arc<Self>,
        data_plane: ClientAddress,
        ledger: Arc<Ledger>,
        request: Request<Incoming>,
    ) -> Response<Either<Answers, Body>> {
        if request.uri().path() != PROCESS {
            let response = self.check(request).await;
            return response.map(Either::Right);
        }
        let Some(place) = self.places.enter(data_plane.0.ip()) else {
            let status = Status::resource_exhausted(
                "too many requests are open; wait for some, or raise limits.connections",
            );
            return status.into_http().map(Either::Right);
        };
        let Ok(call) = ledger.hold(CALL) else {
            let status = Status::resource_exhausted(
                "the data plane has no memory left for a request; wait for some, or raise limits.heads",
            );
            return status.into_http().map(Either::Right);
        };
        let (answers, receiver) = mpsc::channel(ANSWERS);
        let picker = self.picker.clone();
        let wire = Wire::new(
            request.into_body(),
            answers,
            picker.proxy.clone(),
            ledger,
            &self.limits,
            &self.timeouts,
        );
        let timeouts = self.timeouts;
        let body = Answers::new(receiver, place.clone());
        tokio::spawn(async move {
            let _until_it_ends = (place, call);
            stream::run(picker, data_plane, timeouts, wire).await;
        });
        let mut response = Response::new(Either::Left(body));
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(CONTENT_TYPE, grpc);
        response
    }

    /// Answers a health check; refuses calls of other services.
    async fn check(&self, request: Request<Incoming>) -> Response<Body> {
        let answered = self.health.clone().call(request);
        match timeout(self.timeouts.head(), answered).await {
            Ok(Ok(response)) => response,
            Err(_) => Status::deadline_exceeded("no question in time (timeouts.head)").into_http(),
        }
    }
}

/// Serves a data plane until it leaves, is idle, does not read, or `stop` changes while it has no request.
pub(super) async fn serve(
    service: Arc<Service>,
    data_plane: ClientAddress,
    stream: TcpStream,
    mut stop: watch::Receiver<()>,
) {
    let Some((ledger, streams)) = service.open(data_plane) else {
        tracing::debug!(data_plane = %data_plane.0, "no memory for a connection");
        return;
    };
    let head = service.timeouts.head();
    let look_again = LOOK.min(head).min(service.reading.grace);
    let activity = Arc::new(Activity::default());
    let stream = BoundedReads::new(stream);
    let stream = ClientStream::new(
        bytes::Bytes::new(),
        stream,
        Arc::clone(&activity),
        Arc::clone(&ledger),
    );
    let tasks = StreamTasks::default();
    let http2 = Service::builder(streams, tasks.clone());
    let (of_calls, ledger_of_calls) = (Arc::clone(&activity), Arc::clone(&ledger));
    let answering = service_fn(move |request| {
        let progress = StreamProgress::new(service.reading);
        tasks.next_is(Arc::clone(&progress));
        let in_progress = of_calls.begin();
        let ledger = Arc::clone(&ledger_of_calls);
        let answered = Arc::clone(&service).answer(data_plane, Arc::clone(&ledger), request);
        answered.map(|response| {
            Ok::<_, Infallible>(response.map(|body| CountedBody {
                body,
                ledger,
                progress: Some(progress),
                _until_dropped: in_progress,
            }))
        })
    });
    let mut connection = pin!(http2.serve_connection(TokioIo::new(stream), answering));
    let mut look = pin!(sleep(look_again));
    let (mut idle_since, mut seen, mut stopping) = (Instant::now(), 0, false);
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(data_plane = %data_plane.0, "connection: {error}");
                }
                return;
            }
            _changed = stop.changed(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut look => {
                if ledger.is_overdue() {
                    tracing::debug!(data_plane = %data_plane.0, "the data plane does not read");
                    return;
                }
                let ended = activity.ended_without_open();
                if ended != Some(seen) {
                    (idle_since, seen) = (Instant::now(), ended.unwrap_or(seen));
                }
                let is_idle = ended.is_some() && idle_since.elapsed() >= head;
                // It has as long again to go after the request to.
                if is_idle && (stopping || seen == 0) {
                    return;
                }
                if is_idle {
                    (stopping, idle_since) = (true, Instant::now());
                    connection.as_mut().graceful_shutdown();
                }
                look.as_mut().reset(Instant::now() + look_again);
            }
        }
    }
}
