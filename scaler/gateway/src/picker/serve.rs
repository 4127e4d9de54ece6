//! gRPC server of the picker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tetris_service_kit::http::ListenError;
use tetris_service_kit::shutdown::until;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::health::Checks;
use super::parts::Picker;
use super::services::external_processor_server::{ExternalProcessor, ExternalProcessorServer};
use super::services::health_server::HealthServer;
use super::stream;
use super::wire::{ProcessingRequest, ProcessingResponse};
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};

/// Size of a message beside a body: a head of 60 KiB, which is Envoy's limit, with metadata.
const HEAD_BYTES: usize = 1 << 20;
/// Size of the head of a call.
const CALL_HEAD_BYTES: u32 = 16 << 10;
/// A connection carries all streams of a data plane's thread: one that waits must not stop the
/// others.
const CONNECTION_WINDOW: u32 = 16 << 20;
const STREAM_WINDOW: u32 = 256 << 10;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Answers that wait for a slow data plane. Then its messages wait, too.
const ANSWERS: usize = 16;

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
    let processor = Processor {
        picker,
        streams: Arc::new(Semaphore::new(
            limits.connections.min(Semaphore::MAX_PERMITS),
        )),
    };
    let processor = ExternalProcessorServer::new(processor)
        .max_decoding_message_size(limits.body_bytes.saturating_add(HEAD_BYTES));
    let said = stopped.clone();
    let leaving = async move {
        until(said).await;
        tokio::time::sleep(timeouts.farewell()).await;
    };
    let serving = Server::builder()
        .max_concurrent_streams(u32::try_from(limits.connections).unwrap_or(u32::MAX))
        .http2_max_header_list_size(CALL_HEAD_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .tcp_nodelay(true)
        .add_service(processor)
        .add_service(health)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), leaving);
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
    streams: Arc<Semaphore>,
}

#[tonic::async_trait]
impl ExternalProcessor for Processor {
    type ProcessStream = ReceiverStream<Result<ProcessingResponse, Status>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let permit = Arc::clone(&self.streams).try_acquire_owned();
        let permit = permit.map_err(|_| {
            Status::resource_exhausted(
                "too many requests are open; wait for some, or raise limits.connections",
            )
        })?;
        // Without an address it is that of no pod.
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let data_plane = ClientAddress(request.remote_addr().unwrap_or(unknown));
        let (answers, receiver) = mpsc::channel(ANSWERS);
        let picker = self.picker.clone();
        tokio::spawn(async move {
            let _permit = permit;
            stream::run(picker, data_plane, request.into_inner(), answers).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
