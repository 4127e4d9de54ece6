//! Life of a client's connection.
//!
//! **Rest.** A connection without a request, new or between two, is a socket and a timer. hyper's part,
//! with buffers of 16 KiB and more, exists while requests come: it is made with the first bytes of one,
//! and taken apart after some time without any: soon where there are many connections, so that thousands
//! of idle clients take little memory, and late where there are few, since to make it again is a part of
//! the next request's time.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{self, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tetris_service_kit::clients::Clients;
use tetris_service_kit::pace::Pace;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Service;
use super::activity::{Activity, CountedBody};
use super::client_stream::{ClientStream, SPACE};
use super::head;
use super::ledger::Ledger;
use super::streams::{StreamProgress, StreamTasks};
use super::tls::{self, Tls};
use crate::bounded_reads::BoundedReads;
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::memory;
use crate::proxy::ResponseBody;

/// First bytes of a connection by HTTP/2 (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Largest number of bytes read before the protocol is known.
const AHEAD: usize = 2 << 10;
/// Time without a request after which a connection rests; it may take twice as long.
const REST: Duration = Duration::from_secs(4);
/// The same while more than [`FEW`] are open.
const REST_OF_MANY: Duration = Duration::from_millis(200);
/// Number of connections that may have hyper's part all the time.
const FEW: usize = 1_000;
/// Interval in which the gateway looks whether an HTTP/2 client is still there.
const PING: Duration = Duration::from_secs(30);
/// Memory of an HTTP/1 connection that serves: hyper's buffers and tasks, and a request without its head.
const HTTP1: usize = SPACE * 2;
/// Memory of an HTTP/2 connection without its streams: buffers of frames, and tables of header fields.
const HTTP2: usize = 48 << 10;
/// Memory of a stream without the head of its request: its task, its place in tables, and an answer of the gateway's
/// own, which a client may leave unread.
const STREAM: usize = 4 << 10;
/// Bytes of bodies that one stream, and one connection, may have on its way.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of a response that h2 keeps for a client.
const SEND_BUFFER: usize = 64 << 10;
/// Faults of a client's streams after which its connection ends.
const FAULTS: usize = 256;
/// Answer to a client for whose connection there is no memory.
const NO_MEMORY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Servers of both protocols, with their limits.
#[derive(Clone, Debug)]
pub(super) struct Protocols {
    http1: http1::Builder,
    /// Longest time for a head, and without one.
    head: Duration,
    limits: Limits,
    /// Progress of clients in reading.
    reading: Pace,
}

impl Protocols {
    pub(super) fn new(limits: Limits, timeouts: Timeouts) -> Self {
        let mut http1 = http1::Builder::new();
        // The connection itself limits the time for a head: hyper's timer would be made for each one.
        http1
            .header_read_timeout(None)
            .max_buf_size(limits.head_bytes)
            .max_headers(limits.header_fields);
        Self {
            http1,
            head: timeouts.head(),
            limits,
            reading: Pace {
                grace: timeouts.read(),
                bytes_per_second: limits.bytes_per_second,
            },
        }
    }

    fn http2(&self, streams: u32, tasks: StreamTasks) -> http2::Builder<StreamTasks> {
        let mut http2 = http2::Builder::new(tasks);
        let head = u32::try_from(self.limits.head_bytes).unwrap_or(u32::MAX);
        // Windows of one size: those that grow with the client's rate would be 16 MiB for each connection.
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_local_error_reset_streams(FAULTS)
            .max_concurrent_streams(streams)
            .max_header_list_size(head)
            .keep_alive_interval(PING)
            .keep_alive_timeout(self.head);
        http2
    }
}

/// Stream of a client: TCP, or a layer above it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A client's connection.
pub(super) struct Connection {
    pub(super) service: Service,
    pub(super) protocols: Arc<Protocols>,
    /// All open connections, this one among them.
    pub(super) clients: Clients,
    pub(super) client: ClientAddress,
    /// Announces that the connection ends once it has no request.
    pub(super) stop: watch::Receiver<()>,
}

/// The next step of a connection.
enum Next {
    /// Its client sent bytes.
    Bytes,
    /// It ends.
    End,
}

impl Connection {
    /// Shakes hands, and serves what is within. The memory of both is the client's.
    pub(super) async fn serve_tls(self, stream: TcpStream, tls: &Tls) {
        let budget = &self.service.proxy.memory().heads;
        let charged = budget.charge(memory::client(self.client.0.ip()), tls::HANDSHAKE);
        let client = self.client.0;
        let mut charge = match charged {
            Ok(charge) => charge,
            Err(error) => {
                tracing::debug!(%client, "no memory for a handshake: {error}");
                return;
            }
        };
        // On the heap, so that a connection after it has no room for it.
        let handshake = Box::pin(tls.accept(stream));
        match tokio::time::timeout(self.protocols.head, handshake).await {
            Ok(Ok(stream)) => {
                charge.shrink_to(tls::CONNECTION);
                self.serve(stream).await;
            }
            Ok(Err(error)) => tracing::debug!(%client, "handshake: {error}"),
            Err(_) => tracing::debug!(%client, "handshake: the client was too slow"),
        }
    }

    /// Serves until the client leaves, is too slow, or `stop` changes while it has no request.
    pub(super) async fn serve<S: Stream>(mut self, mut stream: S) {
        let client = self.client;
        let mut ahead = Bytes::new();
        let mut protocol_is_known = false;
        loop {
            match self.rest(&mut stream, &mut ahead, protocol_is_known).await {
                Ok(Next::Bytes) => {}
                Ok(Next::End) => return,
                Err(error) => {
                    tracing::debug!(client = %client.0, "connection: {error}");
                    return;
                }
            }
            // Both are on the heap, so that a connection at rest has no room for them.
            if !protocol_is_known && ahead.starts_with(PREFACE) {
                Box::pin(self.serve_http2(stream, ahead)).await;
                return;
            }
            protocol_is_known = true;
            match Box::pin(self.serve_http1(stream, ahead)).await {
                Some((idle, unread)) => (stream, ahead) = (idle, unread),
                None => return,
            }
        }
    }

    /// Waits for bytes of a request.
    async fn rest<S: Stream>(
        &mut self,
        stream: &mut S,
        ahead: &mut Bytes,
        protocol_is_known: bool,
    ) -> io::Result<Next> {
        let enough = |ahead: &[u8]| {
            let begins_with = ahead.get(..PREFACE.len()).unwrap_or(ahead);
            let may_be_http2 = !protocol_is_known && PREFACE.starts_with(begins_with);
            !ahead.is_empty() && (!may_be_http2 || ahead.len() >= PREFACE.len())
        };
        let mut late = pin!(sleep(self.protocols.head));
        while !enough(ahead) {
            tokio::select! {
                biased;
                some = read_ahead(stream, ahead) => {
                    if !some? {
                        return Ok(Next::End);
                    }
                }
                _changed = self.stop.changed() => return Ok(Next::End),
                () = &mut late => {
                    tracing::debug!(client = %self.client.0, "connection without a request");
                    return Ok(Next::End);
                }
            }
        }
        Ok(Next::Bytes)
    }

    /// Serves until the connection ends, or has had no request for some time. Then returns the stream,
    /// with bytes of a request that has not come whole.
    async fn serve_http1<S: Stream>(&mut self, mut stream: S, ahead: Bytes) -> Option<(S, Bytes)> {
        let Some(ledger) = self.open_ledger(HTTP1) else {
            // Once, as far as the socket takes it.
            drop(stream.write(NO_MEMORY).now_or_never());
            return None;
        };
        let activity = Arc::new(Activity::default());
        let stream = ClientStream::new(ahead, stream, Arc::clone(&activity), Arc::clone(&ledger));
        let answering = self.answering(&ledger, &activity);
        let service = service_fn(move |request| answering.answer(request, None));
        let http1 = &self.protocols.http1;
        let mut connection = http1.serve_connection(TokioIo::new(stream), service);
        let (since, mut seen) = (Instant::now(), 0);
        let mut look = pin!(sleep(self.time_to_look()));
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(client = %self.client.0, "connection: {error}");
                    }
                    return None;
                }
                _changed = self.stop.changed(), if !stopping => {
                    stopping = true;
                    pin::Pin::new(&mut connection).graceful_shutdown();
                }
                () = &mut look => {
                    if self.is_overdue(&ledger) {
                        return None;
                    }
                    match activity.idle_after() {
                        Some(0) if since.elapsed() >= self.protocols.head => {
                            tracing::debug!(client = %self.client.0, "connection with a slow head");
                            return None;
                        }
                        Some(0) | None => {}
                        // A request may have begun to come: its head has as long as the first one.
                        Some(ended) if ended == seen && !stopping => break,
                        Some(ended) => seen = ended,
                    }
                    look.as_mut().reset(Instant::now() + self.time_to_look());
                }
            }
        }
        let parts = connection.into_parts();
        let (stream, ahead) = parts.io.into_inner().into_parts();
        // hyper reads all that was read ahead before it waits for a request.
        debug_assert!(ahead.is_empty());
        // A copy: these bytes, even none, would keep hyper's whole buffer.
        Some((stream, Bytes::copy_from_slice(&parts.read_buf)))
    }

    /// Time until the next look whether the connection rests, and whether its head is too slow.
    fn time_to_look(&self) -> Duration {
        let many = self.clients.open() > FEW;
        let rest = if many { REST_OF_MANY } else { REST };
        rest.min(self.protocols.head)
            .min(self.protocols.reading.grace)
    }

    async fn serve_http2<S: Stream>(&mut self, stream: S, ahead: Bytes) {
        let Some((ledger, streams)) = self.open_streams() else {
            return;
        };
        let activity = Arc::new(Activity::default());
        let stream = BoundedReads::new(stream);
        let stream = ClientStream::new(ahead, stream, Arc::clone(&activity), Arc::clone(&ledger));
        let tasks = StreamTasks::default();
        let http2 = self.protocols.http2(streams, tasks.clone());
        let answering = self.answering(&ledger, &activity);
        let pace = self.protocols.reading;
        let service = service_fn(move |request| {
            let progress = StreamProgress::new(pace);
            tasks.next_is(Arc::clone(&progress));
            answering.answer(request, Some(progress))
        });
        let mut connection = pin!(http2.serve_connection(TokioIo::new(stream), service));
        let mut look = pin!(sleep(self.time_to_look()));
        let (mut idle_since, mut seen) = (Instant::now(), 0);
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(client = %self.client.0, "connection: {error}");
                    }
                    return;
                }
                _changed = self.stop.changed(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut look => {
                    let ended = activity.ended_without_open();
                    if ended != Some(seen) {
                        (idle_since, seen) = (Instant::now(), ended.unwrap_or(seen));
                    }
                    let is_idle = ended.is_some() && idle_since.elapsed() >= self.protocols.head;
                    // A client has as long again to go after the request to.
                    if self.is_overdue(&ledger) || is_idle && (stopping || seen == 0) {
                        return;
                    }
                    if is_idle {
                        (stopping, idle_since) = (true, Instant::now());
                        connection.as_mut().graceful_shutdown();
                    }
                    look.as_mut().reset(Instant::now() + self.time_to_look());
                }
            }
        }
    }

    /// Charges memory of a connection itself to its client.
    fn open_ledger(&self, bytes: usize) -> Option<Arc<Ledger>> {
        let budget = &self.service.proxy.memory().heads;
        let client = memory::client(self.client.0.ip());
        Ledger::open(budget, client, bytes, self.protocols.reading)
            .inspect_err(|error| {
                tracing::debug!(client = %self.client.0, "no memory for a connection: {error}");
            })
            .ok()
    }

    /// Charges an HTTP/2 connection, with as many streams as its client has memory for.
    fn open_streams(&self) -> Option<(Arc<Ledger>, u32)> {
        let mut streams = self.protocols.limits.streams;
        while streams > 0 {
            let bytes = STREAM.saturating_mul(streams as usize);
            if let Some(ledger) = self.open_ledger(HTTP2.saturating_add(bytes)) {
                return Some((ledger, streams));
            }
            streams /= 2;
        }
        None
    }

    fn is_overdue(&self, ledger: &Ledger) -> bool {
        let is_overdue = ledger.is_overdue();
        if is_overdue {
            tracing::debug!(client = %self.client.0, "the client does not read");
        }
        is_overdue
    }

    fn answering(&self, ledger: &Arc<Ledger>, activity: &Arc<Activity>) -> Answering {
        Answering {
            service: self.service.clone(),
            client: self.client,
            fields: self.protocols.limits.header_fields,
            ledger: Arc::clone(ledger),
            activity: Arc::clone(activity),
        }
    }
}

/// Answers to the requests of one connection.
struct Answering {
    service: Service,
    client: ClientAddress,
    /// Largest number of header fields.
    fields: usize,
    ledger: Arc<Ledger>,
    activity: Arc<Activity>,
}

impl Answering {
    /// Answers a request. Its head is charged, or dropped, before the next one is read.
    fn answer(
        &self,
        request: Request<Incoming>,
        progress: Option<Arc<StreamProgress>>,
    ) -> impl Future<Output = Result<Response<CountedBody<ResponseBody>>, Infallible>> + use<> {
        let in_progress = self.activity.begin();
        let (service, client) = (self.service.clone(), self.client);
        let admitted = match head::admit(&self.ledger, &request, self.fields) {
            Ok(held) => Ok((Box::new(request), held)),
            Err(problem) => {
                if problem.status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
                    self.activity.is_wrong();
                }
                Err(Box::new(service.proxy.refuse(client, &request, &problem)))
            }
        };
        let ledger = Arc::clone(&self.ledger);
        async move {
            let response = service.answer(client, admitted).await;
            Ok(response.map(|body| CountedBody {
                body,
                ledger,
                progress,
                _until_dropped: in_progress,
            }))
        }
    }
}

/// Reads some bytes. Returns false at the end of the stream.
async fn read_ahead<S: Stream>(stream: &mut S, ahead: &mut Bytes) -> io::Result<bool> {
    poll_fn(|cx| {
        // On the stack of the poll, so that a connection at rest has no room for them.
        let mut bytes = [0; AHEAD];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(pin::Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Ok(false));
        }
        *ahead = Bytes::from([ahead.as_ref(), buffer.filled()].concat());
        Poll::Ready(Ok(true))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::memory::{Memory, Sizes};
    use crate::metrics::Metrics;
    use crate::proxy::Proxy;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: g\r\n\r\n";
    /// A moment for a loaded machine; time does not pass otherwise, so nothing waits for it.
    const HEAD: Duration = Duration::from_hours(1);

    /// A connection with its client, to a proxy without functions: every answer is 404.
    async fn connected(head: Duration) -> (Connection, TcpStream, TcpStream, watch::Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let stop = watch::Sender::new(());
        let (limits, mut timeouts) = (Limits::default(), Timeouts::default());
        timeouts.head_ms = head.as_millis() as u64;
        let connection = Connection {
            service: Service {
                proxy: Proxy::new(
                    &limits,
                    timeouts,
                    Metrics::new(),
                    Memory::new(Sizes::of(&limits, None)),
                ),
                leaving: Arc::default(),
            },
            protocols: Arc::new(Protocols::new(limits, timeouts)),
            clients: Clients::new(FEW * 2, FEW * 2),
            client: ClientAddress(peer),
            stop: stop.subscribe(),
        };
        (connection, stream, client, stop)
    }

    fn serving(mut connection: Connection, stream: TcpStream) -> JoinHandle<Option<Bytes>> {
        tokio::spawn(async move {
            let rested = connection.serve_http1(stream, Bytes::new()).await;
            rested.map(|(_, unread)| unread)
        })
    }

    async fn ask(client: &mut TcpStream, request: &[u8]) {
        client.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
        }
        assert!(answer.starts_with(b"HTTP/1.1 404 "));
    }

    #[tokio::test]
    async fn a_connection_at_rest_has_no_room_for_what_serves_requests() {
        let (connection, stream, _client, _stop) = connected(HEAD).await;
        let bytes = size_of_val(&connection.serve(stream));
        assert!(bytes <= 1024, "{bytes} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_rests_after_a_time_without_a_request_and_serves_the_next() {
        let (connection, stream, mut client, _stop) = connected(HEAD).await;
        let task = serving(connection, stream);
        ask(&mut client, REQUEST).await;
        assert_eq!(task.await.unwrap(), Some(Bytes::new()));

        let (connection, stream, mut client, stop) = connected(HEAD).await;
        let task = tokio::spawn(connection.serve(stream));
        for _ in 0..3 {
            ask(&mut client, REQUEST).await;
            sleep(REST * 3).await;
        }
        // At rest it ends at once.
        stop.send_replace(());
        task.await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_rest_sooner_where_there_are_many() {
        for (others, at_most) in [(FEW, REST * 2), (FEW + 1, REST_OF_MANY * 2)] {
            let (connection, stream, mut client, _stop) = connected(HEAD).await;
            let clients = connection.clients.clone();
            let enter = |_| clients.enter([10, 0, 0, 1].into()).unwrap();
            let _others: Vec<_> = (0..others).map(enter).collect();
            let task = serving(connection, stream);
            ask(&mut client, REQUEST).await;
            let asked = Instant::now();
            assert!(task.await.unwrap().is_some());
            assert_eq!(asked.elapsed().as_millis(), at_most.as_millis());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_begin_of_a_request_is_kept_and_its_connection_does_not_rest_again() {
        let (connection, stream, mut client, _stop) = connected(HEAD).await;
        let task = serving(connection, stream);
        let begin = REQUEST.split_at(9).0;
        ask(&mut client, &[REQUEST, begin].concat()).await;
        let unread = task.await.unwrap().unwrap();
        assert_eq!(unread, begin);
        let bytes = unread.try_into_mut().unwrap();
        assert!(bytes.capacity() < 1 << 10, "hyper's buffer is kept");

        // The time for the rest of the head is limited.
        let (mut connection, stream, _client, _stop) = connected(Duration::from_secs(2)).await;
        let begin = Bytes::from_static(begin);
        assert!(connection.serve_http1(stream, begin).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_or_says_nothing_ends_its_connection() {
        let (connection, stream, client, _stop) = connected(HEAD).await;
        drop(client);
        connection.serve(stream).await;
        for begin in [&b""[..], b"PRI * HT", PREFACE, b"POST / HT"] {
            let (connection, stream, mut client, _stop) = connected(Duration::from_secs(2)).await;
            client.write_all(begin).await.unwrap();
            connection.serve(stream).await;
        }
    }
}
