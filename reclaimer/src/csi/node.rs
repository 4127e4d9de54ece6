//! The services: who the driver is, and volumes for pods.

use std::sync::{Arc, Mutex, PoisonError};

use tonic::{Request, Response, Status};

use super::config::CsiConfig;
use super::error::VolumeError;
use super::publish;
use super::request::{self, Publish};
use super::services::identity_server::Identity;
use super::services::node_server::Node;
use super::stores::Stores;
use super::target::Target;
use super::wire::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, ProbeRequest, ProbeResponse,
};

/// Both services.
#[derive(Debug, Clone)]
pub(super) struct Driver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: CsiConfig,
    node: String,
    stores: Stores,
    /// One change at a time: each takes some milliseconds, and two at one target would mount on top of each other.
    changes: Mutex<()>,
}

impl Driver {
    pub fn new(config: CsiConfig, node: String, stores: Stores) -> Self {
        Self(Arc::new(Shared {
            config,
            node,
            stores,
            changes: Mutex::new(()),
        }))
    }

    pub fn tell_existing(&self) {
        if let Some(rule) = &self.0.config.per_namespace {
            self.0.stores.tell_existing(rule);
        }
    }

    /// Does it where blocking is allowed. It runs to its end even when the kubelet hangs up.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        let done = done.map_err(|error| Status::internal(format!("the call failed: {error}")))?;
        Ok(Response::new(done?))
    }
}

impl Shared {
    fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), VolumeError> {
        let wish = Publish::new(request, &self.config.kubelet_dir)?;
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = self.config.per_namespace.as_ref();
        let store = self
            .stores
            .get(rule, &wish.namespace, wish.store.as_deref())?;
        let target = Target::open(&self.config.kubelet_dir, &wish.target)?;
        let target = target.ok_or_else(|| {
            let expected = "a path whose directory the kubelet has made";
            let found = self.config.kubelet_dir.join(&wish.target);
            VolumeError::invalid("target_path", expected, found.display().to_string())
        })?;
        publish::publish(&target, &store.path)?;
        tracing::info!(
            volume = wish.volume_id,
            namespace = wish.namespace,
            pod = wish.pod,
            store = store.name,
            "volume published"
        );
        Ok(())
    }

    fn unpublish(&self, request: &NodeUnpublishVolumeRequest) -> Result<(), VolumeError> {
        let relative = request::unpublish(request, &self.config.kubelet_dir)?;
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = Target::open(&self.config.kubelet_dir, &relative)? {
            publish::unpublish(&target)?;
        }
        tracing::info!(volume = request.volume_id, "volume unpublished");
        Ok(())
    }
}

fn logged<T>(call: &str, outcome: Result<T, VolumeError>) -> Result<T, VolumeError> {
    outcome.inspect_err(|error| tracing::warn!(call, %error, "call refused"))
}

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.0.config.driver.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(GetPluginCapabilitiesResponse {}))
    }

    async fn probe(
        &self,
        _request: Request<ProbeRequest>,
    ) -> Result<Response<ProbeResponse>, Status> {
        self.blocking(|shared| {
            let ready = Some(shared.stores.are_there());
            Ok(ProbeResponse { ready })
        })
        .await
    }
}

#[tonic::async_trait]
impl Node for Driver {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        self.blocking(|shared| {
            logged("NodePublishVolume", shared.publish(request.into_inner()))?;
            Ok(NodePublishVolumeResponse {})
        })
        .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        self.blocking(|shared| {
            let request = request.into_inner();
            logged("NodeUnpublishVolume", shared.unpublish(&request))?;
            Ok(NodeUnpublishVolumeResponse {})
        })
        .await
    }

    async fn node_get_capabilities(
        &self,
        _request: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(NodeGetCapabilitiesResponse {}))
    }

    async fn node_get_info(
        &self,
        _request: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let node_id = self.0.node.clone();
        Ok(Response::new(NodeGetInfoResponse { node_id }))
    }
}
