//! The CSI services: identity of the driver, and volumes for pods.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tonic::{Request, Response, Status};

use super::choose::Chosen;
use super::config::{CsiConfig, PerNamespace};
use super::error::VolumeError;
use super::namespaces::{Namespaces, PodName};
use super::publish;
use super::remove;
use super::request::{self, Publish};
use super::services::identity_server::Identity;
use super::services::node_server::Node;
use super::stores::Stores;
use super::target::TargetDirectory;
use super::wire::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, ProbeRequest, ProbeResponse,
};
use crate::store::StoreConfig;

/// Both services.
#[derive(Debug, Clone)]
pub(super) struct CsiDriver(Arc<DriverParts>);

#[derive(Debug)]
struct DriverParts {
    config: CsiConfig,
    node: String,
    stores: Arc<Stores>,
    namespaces: Arc<dyn Namespaces>,
    unpublished: Arc<Notify>,
    /// One change at a time: each takes some milliseconds, and two at one target would mount on top
    /// of each other.
    changes: Mutex<()>,
}

impl CsiDriver {
    pub fn new(
        config: CsiConfig,
        node: String,
        stores: Stores,
        namespaces: Arc<dyn Namespaces>,
    ) -> Self {
        Self(Arc::new(DriverParts {
            config,
            node,
            stores: Arc::new(stores),
            namespaces,
            unpublished: Arc::default(),
            changes: Mutex::new(()),
        }))
    }

    /// Removes stores of namespaces that are gone, for ever.
    pub async fn remove_stores(&self) {
        match self.0.config.per_namespace.clone() {
            None => std::future::pending().await,
            Some(rule) => {
                let (stores, namespaces) =
                    (Arc::clone(&self.0.stores), Arc::clone(&self.0.namespaces));
                remove::follow(rule, stores, namespaces, Arc::clone(&self.0.unpublished)).await;
            }
        }
    }

    pub fn tell_existing(&self) {
        if let Some(rule) = &self.0.config.per_namespace {
            self.0.stores.tell_existing(rule);
        }
    }

    /// Does it where blocking is allowed. It runs to its end even when the kubelet hangs up.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DriverParts) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, Status> {
        let shared = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        let done = done.map_err(|error| Status::internal(format!("the call failed: {error}")))?;
        Ok(done?)
    }

    async fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        let wish = logged(PUBLISH, Publish::new(request, &self.0.config.kubelet_dir))?;
        let rule = self.0.config.per_namespace.clone();
        let stores = &self.0.stores;
        let chosen = stores.choose(rule.as_ref(), &wish.namespace, wish.store.as_deref());
        match (logged(PUBLISH, chosen)?, rule) {
            (Chosen::Fixed(store), _) => {
                self.blocking(move |shared| {
                    logged(PUBLISH, shared.publish(&wish, |_| Stores::fixed(store)))
                })
                .await
            }
            (Chosen::Own(_), Some(rule)) => self.publish_own(wish, rule).await,
            (Chosen::Own(_), None) => {
                Err(Status::internal("a store of a namespace without a rule"))
            }
        }
    }

    async fn publish_own(&self, wish: Publish, rule: PerNamespace) -> Result<(), Status> {
        // What this pod was given stays its own, whether or not the API server can be asked now.
        let (again, by) = (wish.clone(), rule.clone());
        let given = self
            .blocking(move |shared| logged(PUBLISH, shared.is_given(&again, &by)))
            .await?;
        if given {
            return Ok(());
        }
        let pod = PodName {
            namespace: wish.namespace.clone(),
            name: wish.pod.clone(),
            uid: wish.pod_uid.clone(),
        };
        let uid = self.0.namespaces.of_pod(&pod).await;
        let uid = uid.map_err(|source| VolumeError::Namespace {
            namespace: pod.namespace,
            source,
        });
        let uid = logged(PUBLISH, uid)?;
        self.blocking(move |shared| {
            let own = |stores: &Stores| stores.own(&rule, &wish.namespace, &uid);
            logged(PUBLISH, shared.publish(&wish, own))
        })
        .await
    }
}

const PUBLISH: &str = "NodePublishVolume";

impl DriverParts {
    fn publish(
        &self,
        wish: &Publish,
        store: impl FnOnce(&Stores) -> Result<StoreConfig, VolumeError>,
    ) -> Result<(), VolumeError> {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let store = store(&self.stores)?;
        let target = TargetDirectory::open(&self.config.kubelet_dir, &wish.target)?;
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
            pod_uid = wish.pod_uid,
            store = store.name,
            "volume published"
        );
        Ok(())
    }

    /// Returns true if a store of the pod's namespace is mounted at its target already. The target
    /// belongs to one pod alone, and a pod stays in one namespace.
    fn is_given(&self, wish: &Publish, rule: &PerNamespace) -> Result<bool, VolumeError> {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = TargetDirectory::open(&self.config.kubelet_dir, &wish.target)? else {
            return Ok(false);
        };
        if target.mounted()?.is_none() {
            return Ok(false);
        }
        for store in self.stores.existing(rule) {
            let path = &store.config.path;
            if store.namespace != wish.namespace {
                continue;
            }
            match publish::is_published(&target, path) {
                Ok(false) => {}
                // It was removed meanwhile.
                Err(_) if !path.exists() => {}
                outcome => return outcome,
            }
        }
        Ok(false)
    }

    fn unpublish(&self, request: &NodeUnpublishVolumeRequest) -> Result<(), VolumeError> {
        let relative = request::unpublish(request, &self.config.kubelet_dir)?;
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = TargetDirectory::open(&self.config.kubelet_dir, &relative)? {
            publish::unpublish(&target)?;
        }
        tracing::info!(volume = request.volume_id, "volume unpublished");
        self.unpublished.notify_one();
        Ok(())
    }
}

fn logged<T>(call: &str, outcome: Result<T, VolumeError>) -> Result<T, VolumeError> {
    outcome.inspect_err(|error| tracing::warn!(call, %error, "call refused"))
}

#[tonic::async_trait]
impl Identity for CsiDriver {
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
        let ready = self.blocking(|shared| Ok(shared.stores.are_there()));
        let ready = Some(ready.await?);
        Ok(Response::new(ProbeResponse { ready }))
    }
}

#[tonic::async_trait]
impl Node for CsiDriver {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        self.publish(request.into_inner()).await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        self.blocking(move |shared| logged("NodeUnpublishVolume", shared.unpublish(&request)))
            .await?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
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
