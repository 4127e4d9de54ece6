//! gRPC server of the external scaler.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tetris_service_kit::clients::Clients;
use tetris_service_kit::grpc::accept;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::state::Snapshot;

use super::calls::LimitedCalls;
use super::stream::{self, Feed, Responses};
use super::target::{METRIC, NoTarget, Target, replicas, spec, value};
use super::wire::external_scaler_server::{ExternalScaler, ExternalScalerServer};
use super::wire::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, ScaledObjectRef,
};

/// Maximum size of a request: a name, a namespace and a few words of metadata.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// Maximum size of a head as HTTP/2 counts it, with 32 bytes for each field: KEDA's have some 600.
const MAX_HEADER_BYTES: u32 = 4 << 10;
/// Bytes of requests that a stream, and a connection, may have on its way.
const WINDOW: u32 = 64 << 10;
/// Timeout of a call. Answers come from memory; the time is for slow clients.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Limits on open streams and on the time to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KedaLimits {
    /// Maximum number of streams, over all connections. KEDA has two per ScaledObject with an
    /// external-push trigger, all through one connection.
    pub streams: usize,
    /// Maximum number of streams of one address. One KEDA may have all.
    pub streams_per_address: usize,
    /// Maximum number of calls that are not answered yet, and of streams whose first message has not come.
    pub calls: usize,
    /// Maximum number of them of one address.
    pub calls_per_address: usize,
    /// Maximum number of connections; more are closed at once.
    pub connections: usize,
    /// Maximum number of connections of one address. KEDA has one for each of its processes.
    pub connections_per_address: usize,
    /// Longest time from a connection to its first request.
    pub begin: Duration,
    /// Time that streams and calls must end once the server stops.
    pub stop: Duration,
}

impl Default for KedaLimits {
    fn default() -> Self {
        Self {
            streams: 8_192,
            streams_per_address: 4_096,
            calls: 2_048,
            calls_per_address: 1_024,
            connections: 1_024,
            connections_per_address: 8,
            begin: Duration::from_secs(10),
            stop: Duration::from_secs(5),
        }
    }
}

/// Returns the service of the external scaler, for a server's router. Its streams end once
/// `stopping` is true.
pub fn service(
    published: watch::Receiver<Arc<Snapshot>>,
    limits: KedaLimits,
    stopping: watch::Receiver<bool>,
) -> ExternalScalerServer<Scaler> {
    let scaler = Scaler {
        published,
        stopping,
        streams: Clients::new(limits.streams, limits.streams_per_address),
    };
    ExternalScalerServer::new(scaler).max_decoding_message_size(MAX_REQUEST_BYTES)
}

/// Serves on `listener` until `stop` completes. Then ends all streams, so that clients connect
/// elsewhere.
///
/// # Errors
///
/// Fails if the transport fails.
pub async fn serve(
    listener: TcpListener,
    published: watch::Receiver<Arc<Snapshot>>,
    limits: KedaLimits,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (stopping, stopped) = watch::channel(false);
    let service = service(published, limits, stopped.clone());
    let most_streams = u32::try_from(limits.streams_per_address).unwrap_or(u32::MAX);
    let clients = Clients::new(limits.connections, limits.connections_per_address);
    let connections = accept(listener, clients, limits.begin);
    let calls = Clients::new(limits.calls, limits.calls_per_address);
    let serving = Server::builder()
        .timeout(CALL_TIMEOUT)
        // Calls share the connection with streams.
        .max_concurrent_streams(most_streams.saturating_add(256))
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .add_service(LimitedCalls::new(service, calls))
        .serve_with_incoming_shutdown(connections, until(stopped));
    let overdue = async {
        stop.await;
        stopping.send_replace(true);
        tokio::time::sleep(limits.stop).await;
    };
    tokio::select! {
        served = serving => served,
        () = overdue => {
            tracing::warn!("connections of KEDA did not close in time");
            Ok(())
        }
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the server is gone.
    drop(stopped.wait_for(|stop| *stop).await);
}

/// The external scaler.
pub struct Scaler {
    published: watch::Receiver<Arc<Snapshot>>,
    stopping: watch::Receiver<bool>,
    streams: Clients,
}

impl Scaler {
    fn replicas(&self, reference: ScaledObjectRef) -> Result<u32, NoTarget> {
        let target = Target::try_from(reference)?;
        let published = self.published.borrow().clone();
        replicas(&published, &target)
    }

    fn feed(&self, client: Option<SocketAddr>) -> Result<Feed, Status> {
        // A client without an address is not on the network.
        let address = client.map_or(Ipv4Addr::LOCALHOST.into(), |client| client.ip());
        let place = self.streams.enter(address);
        let full = || Status::resource_exhausted("too many streams are open; close some");
        Ok(Feed {
            published: self.published.clone(),
            stopping: self.stopping.clone(),
            place: place.ok_or_else(full)?,
        })
    }
}

#[tonic::async_trait]
impl ExternalScaler for Scaler {
    type StreamIsActiveStream = Responses<IsActiveResponse>;
    type StreamMetricSpecStream = Responses<GetMetricSpecResponse>;

    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let result = self.replicas(request.into_inner())? > 0;
        Ok(Response::new(IsActiveResponse { result }))
    }

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let client = request.remote_addr();
        let target = Target::try_from(request.into_inner())?;
        Ok(Response::new(stream::activity(target, self.feed(client)?)))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        // The answer is the same for all targets, but a trigger without names must fail at the
        // first call.
        Target::try_from(request.into_inner())?;
        Ok(Response::new(spec()))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let GetMetricsRequest {
            scaled_object_ref,
            metric_name,
        } = request.into_inner();
        if metric_name != METRIC {
            // The message contains the name, and headers carry the message.
            let found = metric_name.chars().take(64).collect();
            return Err(NoTarget::UnknownMetric { found }.into());
        }
        let reference = scaled_object_ref.ok_or(NoTarget::NoReference)?;
        Ok(Response::new(value(self.replicas(reference)?)))
    }

    async fn stream_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamMetricSpecStream>, Status> {
        let client = request.remote_addr();
        Target::try_from(request.into_inner())?;
        Ok(Response::new(stream::metric(self.feed(client)?)))
    }
}
