//! Watches of the API server.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ApiResource};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Client, Resource};
use tokio::sync::Notify;

use super::cache::Cache;
use super::outage::Outage;
use super::records::{DeploymentRecord, FunctionRecord, NodeRecord, PodRecord, ProfileRecord};
use crate::labels;
use crate::metrics::Metrics;
use crate::resources::{InferenceFunction, ModelProfile};

/// Maximum number of objects of one answer; a pod has some 10 KiB.
const PAGE: u32 = 500;

/// Caches of all observed objects. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Watches {
    /// Functions.
    pub functions: Cache<FunctionRecord>,
    /// Profiles.
    pub profiles: Cache<ProfileRecord>,
    /// Deployments with the label of a function.
    pub deployments: Cache<DeploymentRecord>,
    /// All pods, as they take resources.
    pub pods: Cache<PodRecord>,
    /// All nodes.
    pub nodes: Cache<NodeRecord>,
}

impl Watches {
    /// Watches the API server for ever, and notifies `changed` of changes.
    pub async fn run(&self, client: &Client, changed: &Notify, metrics: &Arc<Metrics>) {
        let config = || Config::default().page_size(PAGE);
        let outage = |kind| Outage::new(kind, metrics);
        let labeled = config().labels(labels::FUNCTION);
        let functions = watcher(dynamic::<InferenceFunction>(client), config()).default_backoff();
        let profiles = watcher(dynamic::<ModelProfile>(client), config()).default_backoff();
        let deployments = watcher(Api::<Deployment>::all(client.clone()), labeled);
        let deployments = deployments.default_backoff();
        let pods = watcher(Api::<Pod>::all(client.clone()), config()).default_backoff();
        let nodes = watcher(Api::<Node>::all(client.clone()), config()).default_backoff();
        let function = |object| Some(FunctionRecord::read(object));
        let profile = |object| Some(ProfileRecord::read(&object));
        let node = |object| Some(NodeRecord::read(&object));
        let deployment = |object| DeploymentRecord::read(&object);
        let pod = |object| PodRecord::read(&object);
        let all: [std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>>; 5] = [
            Box::pin((self.functions).follow(functions, function, changed, outage("functions"))),
            Box::pin((self.profiles).follow(profiles, profile, changed, outage("profiles"))),
            Box::pin((self.deployments).follow(
                deployments,
                deployment,
                changed,
                outage("deployments"),
            )),
            Box::pin((self.pods).follow(pods, pod, changed, outage("pods"))),
            Box::pin((self.nodes).follow(nodes, node, changed, outage("nodes"))),
        ];
        join_all(all).await;
    }
}

/// Returns an API of untyped objects, so that each is parsed individually.
fn dynamic<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}
