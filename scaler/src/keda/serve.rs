//! gRPC server of the external scaler.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::state::Snapshot;

use super::services::external_scaler_server::{ExternalScaler, ExternalScalerServer};
use super::stream::{self, Feed, Responses};
use super::target::{METRIC, NoTarget, Target, replicas, spec, value};
use super::wire::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, ScaledObjectRef,
};

/// Maximum size of a request: a name, a namespace and a few words of metadata.
const MAX_REQUEST_BYTES: usize = 64 << 10;
const MAX_HEADER_BYTES: u32 = 16 << 10;
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
    /// Time that streams and calls have to end once the server stops.
    pub stop: Duration,
}

impl Default for KedaLimits {
    fn default() -> Self {
        Self {
            streams: 4_096,
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
        streams: Arc::new(Semaphore::new(limits.streams.min(Semaphore::MAX_PERMITS))),
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
    let most_streams = u32::try_from(limits.streams).unwrap_or(u32::MAX);
    let serving = Server::builder()
        .timeout(CALL_TIMEOUT)
        // Calls share the connection with streams.
        .max_concurrent_streams(most_streams.saturating_add(256))
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .tcp_nodelay(true)
        .add_service(service)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), until(stopped));
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
    streams: Arc<Semaphore>,
}

impl Scaler {
    fn replicas(&self, reference: ScaledObjectRef) -> Result<u32, NoTarget> {
        let target = Target::try_from(reference)?;
        let published = self.published.borrow().clone();
        replicas(&published, &target)
    }

    fn feed(&self) -> Result<Feed, Status> {
        let permit = Arc::clone(&self.streams).try_acquire_owned();
        let full = |_| Status::resource_exhausted("too many streams are open; close some");
        Ok(Feed {
            published: self.published.clone(),
            stopping: self.stopping.clone(),
            permit: permit.map_err(full)?,
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
        let target = Target::try_from(request.into_inner())?;
        Ok(Response::new(stream::activity(target, self.feed()?)))
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
        Target::try_from(request.into_inner())?;
        Ok(Response::new(stream::metric(self.feed()?)))
    }
}
