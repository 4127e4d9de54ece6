//! Functions and instances of a cluster, from watches of the API server.
//!
//! **Guarantees.** An instance gets requests while its pod is ready and not being deleted. What was
//! known last stays in force while the API server does not answer. An invalid function or profile
//! affects no others.

mod follow;
mod functions;
mod pod;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource};
use kube::core::DynamicObject;
use kube::runtime::watcher::Config;
use kube::{Client, Resource};
use tetris_scaler::labels;
use tetris_scaler::operator::cache::Cache;
use tetris_scaler::operator::records::{FunctionRecord, ProfileRecord};
use tetris_scaler::resources::{InferenceFunction, ModelProfile};
use tokio::sync::Notify;

use crate::callers::{Callers, PodAddresses};
use crate::config::ClusterDefaults;
use crate::proxy::Proxy;

use follow::follow;
use functions::Functions;
use pod::InstanceRecord;

/// Label of the gateways' own pods.
const GATEWAY: &str = "app.kubernetes.io/name=tetris-gateway";
/// Maximum number of objects of one answer.
const PAGE: u32 = 500;
/// Time in which several changes become one.
const GATHER: Duration = Duration::from_millis(20);

/// A cluster's functions.
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
    defaults: ClusterDefaults,
    functions: Cache<FunctionRecord>,
    profiles: Cache<ProfileRecord>,
    pods: Cache<InstanceRecord>,
    gateways: Cache<bool>,
    changed: Notify,
    callers: Arc<Callers>,
    addresses: Cache<PodAddresses>,
    addresses_changed: Notify,
}

impl Cluster {
    /// Creates one without objects. `namespace` is that of the gateways' pods.
    pub(crate) fn new(
        client: Client,
        namespace: String,
        defaults: ClusterDefaults,
        callers: Arc<Callers>,
    ) -> Self {
        Self {
            client,
            namespace,
            defaults,
            functions: Cache::default(),
            profiles: Cache::default(),
            pods: Cache::default(),
            gateways: Cache::default(),
            changed: Notify::new(),
            callers,
            addresses: Cache::default(),
            addresses_changed: Notify::new(),
        }
    }

    /// Keeps the routes of `proxy` up to date, for ever. `ready` receives the first complete ones.
    pub(crate) async fn run(&self, proxy: &Proxy, ready: impl FnOnce()) {
        let config = || Config::default().page_size(PAGE);
        let (client, changed) = (&self.client, &self.changed);
        let pods = Api::<Pod>::all(client.clone());
        let gateways = Api::<Pod>::namespaced(client.clone(), &self.namespace);
        let function = |object| Some(FunctionRecord::read(object));
        let profile = |object| Some(ProfileRecord::read(&object));
        let instance = |object| InstanceRecord::read(&object);
        let gateway = |object| Some(pod::is_ready(&object));
        let address = |object| PodAddresses::read(&object);
        tokio::join!(
            follow(
                "functions",
                dynamic::<InferenceFunction>(client),
                config(),
                &self.functions,
                function,
                changed
            ),
            follow(
                "profiles",
                dynamic::<ModelProfile>(client),
                config(),
                &self.profiles,
                profile,
                changed
            ),
            follow(
                "pods",
                pods.clone(),
                config(),
                &self.addresses,
                address,
                &self.addresses_changed
            ),
            follow(
                "instances",
                pods,
                config().labels(labels::FUNCTION),
                &self.pods,
                instance,
                changed
            ),
            follow(
                "gateways",
                gateways,
                config().labels(GATEWAY),
                &self.gateways,
                gateway,
                changed
            ),
            self.publish_addresses(),
            self.publish(proxy, ready),
        );
    }

    /// Passes the addresses of all pods to those who know callers by them.
    async fn publish_addresses(&self) {
        loop {
            self.addresses_changed.notified().await;
            tokio::time::sleep(GATHER).await;
            if let Some(pods) = self.addresses.all() {
                self.callers.addresses().set(&pods);
                // The first routes may wait for them.
                self.changed.notify_one();
            }
        }
    }

    async fn publish(&self, proxy: &Proxy, ready: impl FnOnce()) {
        let mut functions = Functions::default();
        let mut ready = Some(ready);
        loop {
            self.changed.notified().await;
            tokio::time::sleep(GATHER).await;
            let known = (
                self.functions.all(),
                self.profiles.all(),
                self.pods.all(),
                self.gateways.all(),
            );
            let (Some(of), Some(profiles), Some(pods), Some(gateways)) = known else {
                continue;
            };
            // Callers of the first requests are known, too.
            if ready.is_some() && !self.callers.addresses().are_known() {
                continue;
            }
            let gateways = gateways.values().filter(|ready| ***ready).count();
            let rules = functions::Common {
                defaults: self.defaults,
                gateways: u32::try_from(gateways).unwrap_or(u32::MAX).max(1),
            };
            proxy.set_routes(&functions.update(&of, &profiles, &pods, rules));
            if let Some(ready) = ready.take() {
                ready();
            }
        }
    }
}

/// Returns an API of untyped objects, so that each is parsed individually.
fn dynamic<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// Creates a client of the API server that the environment configures.
pub(crate) use tetris_scaler::api_client::client;

#[cfg(test)]
mod tests;
