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
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::Service;
use super::activity::Activity;
use super::client_stream::ClientStream;
use super::clients::Clients;
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};

/// First bytes of a connection by HTTP/2 (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Largest number of bytes that are read before the protocol is known.
const AHEAD: usize = 2 << 10;
/// Time without a request after which a connection rests; it may take twice as long.
const REST: Duration = Duration::from_secs(4);
/// The same while more than [`FEW`] are open.
const REST_OF_MANY: Duration = Duration::from_millis(200);
/// Number of connections that may have hyper's part all the time.
const FEW: usize = 1_000;
/// Interval in which the gateway looks whether an HTTP/2 client is still there.
const PING: Duration = Duration::from_secs(30);

/// Servers of both protocols, with their limits.
#[derive(Clone, Debug)]
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    /// Longest time for a head, and without one.
    head: Duration,
}

impl Protocols {
    pub(super) fn new(limits: Limits, timeouts: Timeouts) -> Self {
        let head = timeouts.head();
        let mut http1 = http1::Builder::new();
        // The connection itself limits the time for a head: hyper's timer would be made for each one.
        http1
            .header_read_timeout(None)
            .max_buf_size(limits.head_bytes);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .adaptive_window(true)
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(PING)
            .keep_alive_timeout(head);
        Self { http1, http2, head }
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
    /// Tells that the connection ends once it has no request.
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
    async fn serve_http1<S: Stream>(&mut self, stream: S, ahead: Bytes) -> Option<(S, Bytes)> {
        let activity = Arc::new(Activity::default());
        let stream = ClientStream::new(ahead, stream, Arc::clone(&activity));
        let (service, client, counted) = (self.service.clone(), self.client, Arc::clone(&activity));
        let service = service_fn(move |request: Request<Incoming>| {
            let in_progress = counted.begin();
            let (service, request) = (service.clone(), Box::new(request));
            async move {
                let response = service.answer(client, request).await?;
                let response = response.map(|body| in_progress.until_end_of(body));
                Ok::<Response<_>, Infallible>(response)
            }
        });
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
                        tracing::debug!(client = %client.0, "connection: {error}");
                    }
                    return None;
                }
                _changed = self.stop.changed(), if !stopping => {
                    stopping = true;
                    pin::Pin::new(&mut connection).graceful_shutdown();
                }
                () = &mut look => {
                    match activity.idle_after() {
                        Some(0) if since.elapsed() >= self.protocols.head => {
                            tracing::debug!(client = %client.0, "connection with a slow head");
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
    }

    async fn serve_http2<S: Stream>(&mut self, stream: S, ahead: Bytes) {
        let spoke = Arc::new(AtomicBool::new(false));
        let silent = silent(Arc::clone(&spoke), self.protocols.head);
        let (service, client) = (self.service.clone(), self.client);
        let service = service_fn(move |request: Request<Incoming>| {
            spoke.store(true, Ordering::Relaxed);
            service.clone().answer(client, Box::new(request))
        });
        let stream = ClientStream::new(ahead, stream, Arc::default());
        let http2 = &self.protocols.http2;
        let mut connection = pin!(http2.serve_connection(TokioIo::new(stream), service));
        let mut silent = pin!(silent);
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(client = %client.0, "connection: {error}");
                    }
                    return;
                }
                _changed = self.stop.changed(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut silent => {
                    tracing::debug!(client = %client.0, "connection without a request");
                    return;
                }
            }
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

/// Completes if nothing was asked within `time`.
async fn silent(spoke: Arc<AtomicBool>, time: Duration) {
    sleep(time).await;
    if spoke.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;
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
                proxy: Proxy::new(&limits, timeouts, Metrics::new()),
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
        let own = unread.try_into_mut().unwrap();
        assert!(own.capacity() < 1 << 10, "hyper's buffer is kept");

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
