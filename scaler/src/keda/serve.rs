//! The server.

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

/// A request is a name, a namespace and a few words of metadata.
const MAX_REQUEST_BYTES: usize = 64 << 10;
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// Calls are answered from memory; the time is for clients that send slowly.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How much is open at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KedaLimits {
    /// Streams, all connections together. KEDA has two per ScaledObject with an external-push trigger, all through one
    /// connection.
    pub streams: usize,
    /// How long streams and calls may go on once the server is to end.
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

/// Serves on `listener` until `stop`. Streams end then, so that clients go elsewhere.
pub async fn serve(
    listener: TcpListener,
    published: watch::Receiver<Arc<Snapshot>>,
    limits: KedaLimits,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (stopping, stopped) = watch::channel(false);
    let scaler = Scaler {
        published,
        stopping: stopped.clone(),
        streams: Arc::new(Semaphore::new(limits.streams.min(Semaphore::MAX_PERMITS))),
    };
    let service = ExternalScalerServer::new(scaler).max_decoding_message_size(MAX_REQUEST_BYTES);
    let most_streams = u32::try_from(limits.streams).unwrap_or(u32::MAX);
    let serving = Server::builder()
        .timeout(CALL_TIMEOUT)
        // Calls come through the same connection as streams.
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
            tracing::warn!("KEDA's connections did not end in time");
            Ok(())
        }
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error says that the server is gone.
    drop(stopped.wait_for(|stop| *stop).await);
}

struct Scaler {
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
        let full = |_| Status::resource_exhausted("too many streams are open; end some");
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
        // The same for all, but a trigger that names nothing is to fail where its author looks first.
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
            // The name is in the message, which headers carry.
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
