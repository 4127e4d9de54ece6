//! The CSI services: identity of the driver, and volumes for pods.

use std::sync::{Arc, Mutex, PoisonError};

use tetris_sandbox::idmap::IdMap;
use tokio::sync::{Notify, watch};
use tonic::{Request, Response, Status};
use tracing::{Instrument as _, Span};

use super::choose::Chosen;
use super::config::{CsiConfig, PerNamespace};
use super::domains;
use super::error::VolumeError;
use super::idmap::PodIds;
use super::mounted::{self, VolumeCounts};
use super::mounting::Mounting;
use super::namespaces::{Namespaces, PodName};
use super::publish::{self, MountUse};
use super::python::PackageMount;
use super::remove;
use super::request::{self, Publish, VolumeContent};
use super::stores::{Given, Keeper, Stores};
use super::target::TargetDirectory;
use super::wire::identity_server::Identity;
use super::wire::node_server::Node;
use super::wire::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, ProbeRequest, ProbeResponse,
};
use crate::report::VolumeStatus;

/// Both services.
#[derive(Debug, Clone)]
pub(super) struct CsiDriver(Arc<DriverParts>);

#[derive(Debug)]
pub(super) struct DriverParts {
    pub(super) config: CsiConfig,
    node: String,
    pub(super) stores: Arc<Stores>,
    namespaces: Arc<dyn Namespaces>,
    unpublished: Arc<Notify>,
    pub(super) ids: PodIds,
    pub(super) package: PackageMount,
    volumes: watch::Sender<Option<VolumeStatus>>,
    pub(super) mounting: Mounting,
    /// One change at a time: each takes some milliseconds, and two at one target would mount on top
    /// of each other.
    pub(super) changes: Mutex<()>,
}

impl CsiDriver {
    pub fn new(
        config: CsiConfig,
        node: String,
        stores: Stores,
        namespaces: Arc<dyn Namespaces>,
        ids: PodIds,
        volumes: watch::Sender<Option<VolumeStatus>>,
    ) -> Self {
        Self(Arc::new(DriverParts {
            package: PackageMount::new(config.python.clone()),
            config,
            node,
            stores: Arc::new(stores),
            namespaces,
            unpublished: Arc::default(),
            ids,
            volumes,
            mounting: Mounting::default(),
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

    /// Counts the volumes that pods have.
    pub fn count_volumes(&self) {
        self.0.count_volumes();
    }

    /// Unmounts the Python packages of earlier daemons.
    pub fn unmount_earlier_packages(&self) {
        self.0.package.unmount_others();
    }

    /// Does it where blocking is allowed. It runs to its end even when the kubelet hangs up.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DriverParts) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, Status> {
        let (shared, span) = (Arc::clone(&self.0), Span::current());
        let work = move || span.in_scope(|| work(&shared));
        let done = tokio::task::spawn_blocking(work).await;
        let done = done.map_err(|error| Status::internal(format!("the call failed: {error}")))?;
        Ok(done?)
    }

    async fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        let wish = logged(PUBLISH, Publish::new(request, &self.0.config.kubelet_dir))?;
        match wish.content.clone() {
            VolumeContent::Store => {}
            VolumeContent::Python => return self.publish_python(wish).await,
            VolumeContent::Model(model) => return self.publish_model(wish, model).await,
        }
        let chosen = logged(PUBLISH, self.chosen(&wish))?;
        match (chosen, self.per_namespace()) {
            (Chosen::Fixed(store), _) => {
                let users = self.users_of(&wish).await;
                self.blocking(move |shared| {
                    let fixed = |stores: &Stores| stores.fixed(&store);
                    logged(PUBLISH, shared.publish(&wish, &users, fixed))
                })
                .await?;
                Ok(())
            }
            (Chosen::Own(_), Some(rule)) => self.publish_own(wish, rule).await,
            (Chosen::Own(_), None) => {
                Err(Status::internal("a store of a namespace without a rule"))
            }
        }
    }

    /// The store of the pod.
    pub(super) fn chosen(&self, wish: &Publish) -> Result<Chosen, VolumeError> {
        let rule = self.0.config.per_namespace.as_ref();
        let wanted = wish.store.as_deref();
        self.0.stores.choose(rule, &wish.namespace, wanted)
    }

    /// The rule of namespaces' stores, if there is one.
    pub(super) fn per_namespace(&self) -> Option<PerNamespace> {
        self.0.config.per_namespace.clone()
    }

    /// The process that owns the stores.
    pub(super) fn keeper(&self) -> &dyn Keeper {
        self.0.stores.keeper()
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
        let place = self.0.namespaces.of_pod(&pod_of(&wish)).await;
        let place = place.map_err(|source| VolumeError::Namespace {
            namespace: wish.namespace.clone(),
            source,
        });
        let place = logged(PUBLISH, place)?;
        let given = self
            .blocking(move |shared| {
                let store_of_namespace =
                    |stores: &Stores| stores.own(&rule, &wish.namespace, &place.namespace_uid);
                let users = PodUsers {
                    are_the_hosts: place.host_users,
                    namespace_uid: Some(place.namespace_uid.clone()),
                };
                logged(PUBLISH, shared.publish(&wish, &users, store_of_namespace))
            })
            .await?;
        if given.is_new {
            // Other pods' volumes need not wait for it.
            self.0.stores.await_keeper(&given).await;
        }
        Ok(())
    }

    /// Returns true if the pod's mount may be idmapped. Without stores of namespaces there may be no API server to ask.
    pub(super) async fn may_be_idmapped(&self, wish: &Publish) -> bool {
        self.users_of(wish).await.are_the_hosts
    }

    /// The pod's users. A pod that cannot be asked about must start even if it has its own, so it gets a plain mount.
    pub(super) async fn users_of(&self, wish: &Publish) -> PodUsers {
        if self.0.config.per_namespace.is_none() {
            return PodUsers {
                are_the_hosts: true,
                namespace_uid: None,
            };
        }
        match self.0.namespaces.of_pod(&pod_of(wish)).await {
            Ok(place) => PodUsers {
                are_the_hosts: place.host_users,
                namespace_uid: Some(place.namespace_uid),
            },
            Err(error) => {
                tracing::warn!(pod = wish.pod, namespace = wish.namespace, %error, "it is not known whether the pod has users of its own; its mount is not idmapped");
                PodUsers {
                    are_the_hosts: false,
                    namespace_uid: None,
                }
            }
        }
    }
}

/// Users of a pod, as far as they are known.
#[derive(Debug)]
pub(super) struct PodUsers {
    /// True if they are those of the node, so that its mount may be idmapped.
    pub(super) are_the_hosts: bool,
    /// Unique identifier of its namespace.
    pub(super) namespace_uid: Option<String>,
}

fn pod_of(wish: &Publish) -> PodName {
    PodName {
        namespace: wish.namespace.clone(),
        name: wish.pod.clone(),
        uid: wish.pod_uid.clone(),
    }
}

pub(super) const PUBLISH: &str = "NodePublishVolume";
const UNPUBLISH: &str = "NodeUnpublishVolume";
/// Longest identifier of a volume in a span, in bytes.
const VOLUME: usize = 128;

impl DriverParts {
    fn publish(
        &self,
        wish: &Publish,
        users: &PodUsers,
        store: impl FnOnce(&Stores) -> Result<Given, VolumeError>,
    ) -> Result<Given, VolumeError> {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let store = store(&self.stores)?;
        let target = self.target(wish)?;
        let map = self.ids.map().filter(|_| users.are_the_hosts);
        let domain = map.and_then(|_| self.domain_of(wish, users, &store));
        let shown = domain.as_ref().or(map);
        publish::publish(&target, &store.directory, shown, MountUse::Data)?;
        self.count_volumes();
        tracing::info!(
            volume = wish.volume_id,
            namespace = wish.namespace,
            pod = wish.pod,
            pod_uid = wish.pod_uid,
            store = store.config.name,
            idmapped = map.is_some(),
            trust_domain = domain.is_some(),
            "volume published"
        );
        Ok(store)
    }

    /// The map that shows the pod's trust domain. A pod without one shares memory all the same.
    fn domain_of(&self, wish: &Publish, users: &PodUsers, store: &Given) -> Option<IdMap> {
        let namespace = users.namespace_uid.as_deref()?;
        let account = wish.service_account.as_deref()?;
        let identity = self.config.trust_domain.identity(namespace, account)?;
        let map = domains::map_of(&store.directory, &identity);
        map.inspect_err(|error| {
            let (pod, store) = (&wish.pod, &store.config.name);
            tracing::warn!(pod, namespace = wish.namespace, store, %error, "the pod has no trust domain; it derives its own tensors");
        })
        .ok()
    }

    /// The directory of the volume.
    pub(super) fn target(&self, wish: &Publish) -> Result<TargetDirectory, VolumeError> {
        let target = TargetDirectory::open(&self.config.kubelet_dir, &wish.target)?;
        target.ok_or_else(|| {
            let expected = "a path whose directory the kubelet has made";
            let found = self.config.kubelet_dir.join(&wish.target);
            VolumeError::invalid("target_path", expected, found.display().to_string())
        })
    }

    /// Counts the volumes that pods have now.
    fn count_volumes(&self) {
        let devices = self.stores.devices(self.config.per_namespace.as_ref());
        let counts = mounted::count(&self.config.kubelet_dir, devices).unwrap_or_else(|error| {
            tracing::warn!(%error, "volumes of pods cannot be counted");
            VolumeCounts::default()
        });
        let status = VolumeStatus {
            idmapped: counts.idmapped,
            plain: counts.plain,
            plain_because: self.ids.missing_because().map(ToString::to_string),
        };
        self.volumes.send_replace(Some(status));
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
            if store.namespace != wish.namespace {
                continue;
            }
            // One that was removed meanwhile is mounted nowhere.
            if let Some(directory) = self.stores.directory(&store.config.path)?
                && publish::is_published(&target, &directory)?
            {
                return Ok(true);
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
        self.count_volumes();
        tracing::info!(volume = request.volume_id, "volume unpublished");
        self.unpublished.notify_one();
        Ok(())
    }
}

/// Span of a call. Identifiers of volumes are the kubelet's, and short.
fn call_span(call: &'static str, volume: &str) -> Span {
    let end = volume.floor_char_boundary(VOLUME);
    let volume = volume.get(..end).unwrap_or_default();
    tracing::debug_span!("csi", otel.kind = "server", call, volume)
}

pub(super) fn logged<T>(call: &str, outcome: Result<T, VolumeError>) -> Result<T, VolumeError> {
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
        let request = request.into_inner();
        let span = call_span(PUBLISH, &request.volume_id);
        self.publish(request).instrument(span).await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let span = call_span(UNPUBLISH, &request.volume_id);
        self.blocking(move |shared| logged(UNPUBLISH, shared.unpublish(&request)))
            .instrument(span)
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
