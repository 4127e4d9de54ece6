//! gRPC server of the picker.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tetris_service_kit::budget::{Budget, Charge};
use tetris_service_kit::clients::Clients;
use tetris_service_kit::grpc::accept;
use tetris_service_kit::http::ListenError;
use tetris_service_kit::shutdown::until;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::health::Checks;
use super::inbound::{StreamLimits, Wire};
use super::messages::LimitedMessages;
use super::parts::Picker;
use super::services::external_processor_server::{ExternalProcessor, ExternalProcessorServer};
use super::services::health_server::HealthServer;
use super::shape::HEAD_BYTES;
use super::stream;
use super::wire::{ProcessingRequest, ProcessingResponse};
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::memory::client;

/// Size of the head of a call.
const CALL_HEAD_BYTES: u32 = 16 << 10;
/// A connection carries all streams of a data plane's thread: one that waits must not stop the
/// others.
const CONNECTION_WINDOW: u32 = 256 << 10;
const STREAM_WINDOW: u32 = 64 << 10;
/// Memory of a stream without messages: its task, its place in tables, and buffers.
const STREAM: usize = 16 << 10;
/// Memory of a connection: bytes on streams that wait, buffers of frames, and tables of header fields.
const CONNECTION: usize = CONNECTION_WINDOW as usize + (64 << 10);
/// Largest question about health.
const HEALTH_BYTES: usize = 4 << 10;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Answers that wait for a slow data plane. Then its messages wait, too.
const ANSWERS: usize = 2;

/// Listens for data planes, if there is an address for them.
pub(crate) async fn listen(
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, ListenError> {
    match address {
        Some(address) => tetris_service_kit::http::listen("picker-listen", address)
            .await
            .map(Some),
        None => Ok(None),
    }
}

/// Serves on `listener`, if there is one, until `stopped` is true. For [`Timeouts::farewell`]
/// after that, it still takes connections. Then lets requests end within [`Timeouts::stop`].
pub(crate) async fn serve(
    listener: Option<TcpListener>,
    picker: Picker,
    limits: Limits,
    timeouts: Timeouts,
    stopped: watch::Receiver<bool>,
) {
    let Some(listener) = listener else { return };
    let health = HealthServer::new(Checks {
        ready: Arc::clone(&picker.ready),
    });
    let health = health.max_decoding_message_size(HEALTH_BYTES);
    let proxy = picker.proxy.clone();
    let processor = Processor {
        picker,
        limits: StreamLimits::of(&limits, &timeouts),
        // One data plane has half at most.
        streams: Budget::new(limits.connections.saturating_mul(2)),
    };
    let processor = ExternalProcessorServer::new(processor)
        .max_decoding_message_size(limits.body_bytes.saturating_add(HEAD_BYTES));
    let processor = LimitedMessages::new(processor, proxy.clone());
    let clients = Clients::new(limits.connections, limits.connections_per_client);
    let heads = proxy.memory().heads.clone();
    let charged = move |address| heads.charge(client(address), CONNECTION).ok();
    let connections = accept(listener, clients, timeouts.head(), charged);
    let said = stopped.clone();
    let leaving = async move {
        until(said).await;
        tokio::time::sleep(timeouts.farewell()).await;
    };
    // More than one data plane may have are refused, and need not wait.
    let streams = u32::try_from(limits.connections.saturating_mul(2)).unwrap_or(u32::MAX);
    let serving = Server::builder()
        .max_concurrent_streams(streams)
        .http2_max_header_list_size(CALL_HEAD_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(processor)
        .add_service(health)
        .serve_with_incoming_shutdown(connections, leaving);
    let overdue = async {
        until(stopped).await;
        tokio::time::sleep(timeouts.farewell().saturating_add(timeouts.stop())).await;
    };
    tokio::select! {
        served = serving => if let Err(error) = served {
            tracing::error!("the endpoint picker ended: {error}");
        },
        () = overdue => tracing::warn!("some picked requests had not ended when the gateway stopped"),
    }
}

/// The external processor.
#[derive(Debug)]
struct Processor {
    picker: Picker,
    limits: StreamLimits,
    /// Open streams by the address of their data plane.
    streams: Budget<IpAddr>,
}

/// Answers of a stream, with its place among all.
#[derive(Debug)]
struct Answers {
    answers: ReceiverStream<Result<ProcessingResponse, Status>>,
    _held: [Charge<IpAddr>; 2],
}

impl Stream for Answers {
    type Item = Result<ProcessingResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.answers).poll_next(cx)
    }
}

#[tonic::async_trait]
impl ExternalProcessor for Processor {
    type ProcessStream = Answers;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        // Without an address it is that of no pod.
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let data_plane = ClientAddress(request.remote_addr().unwrap_or(unknown));
        let (answers, receiver) = mpsc::channel(ANSWERS);
        let address = client(data_plane.0.ip());
        let place = self.streams.charge(address, 1).map_err(|_| {
            Status::resource_exhausted(
                "too many requests are open; wait for some, or raise limits.connections",
            )
        })?;
        let heads = &self.picker.proxy.memory().heads;
        let memory = heads.charge(address, STREAM).map_err(|exceeded| {
            let problem = format!("no memory for a stream: {exceeded}; raise limits.heads");
            Status::resource_exhausted(problem)
        })?;
        let wire = Wire::new(request.into_inner(), answers, self.limits);
        tokio::spawn(stream::run(self.picker.clone(), data_plane, wire));
        Ok(Response::new(Answers {
            answers: ReceiverStream::new(receiver),
            _held: [place, memory],
        }))
    }
}
