//! Namespaces of pods by their addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tetris_scaler::state::Key;
use tetris_service_kit::clients::Clients;
use tokio::sync::watch;

/// Longest wait for news of a pod: its first requests can come before the kubelet has published its address.
const NEWS: Duration = Duration::from_secs(3);
/// Largest number of requests that wait for news, and of those from one address.
const WAITING: usize = 1_024;
const WAITING_OF_ADDRESS: usize = 64;

/// Namespaces of pods by their addresses. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    known: Arc<watch::Sender<Option<ByAddress>>>,
    waiting: Clients,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            known: Arc::default(),
            waiting: Clients::new(WAITING, WAITING_OF_ADDRESS),
        }
    }
}

/// `None` for an address that pods of several namespaces have, as between the end of one and the news of it.
type ByAddress = HashMap<IpAddr, Option<Arc<str>>>;

impl Addresses {
    /// Namespace of the pod with this address, if it is that of one pod.
    pub(crate) fn namespace(&self, address: IpAddr) -> Option<Arc<str>> {
        namespace(self.known.borrow().as_ref(), address)
    }

    /// Waits until a pod with this address is known, for at most [`NEWS`].
    pub(crate) async fn wait_for(&self, address: IpAddr) {
        let Some(_place) = self.waiting.enter(address.to_canonical()) else {
            return;
        };
        let mut changes = self.known.subscribe();
        let is_known = |known: &Option<ByAddress>| namespace(known.as_ref(), address).is_some();
        let news = async { drop(changes.wait_for(is_known).await) };
        // Without news it stays unknown.
        let _in_time = tokio::time::timeout(NEWS, news).await;
    }

    /// Replaces all addresses by those of `pods`.
    pub(crate) fn set(&self, pods: &BTreeMap<Key, Arc<PodAddresses>>) {
        let mut namespaces: BTreeMap<&str, Arc<str>> = BTreeMap::new();
        let mut all = ByAddress::with_capacity(pods.len());
        for (key, pod) in pods {
            let namespace = namespaces
                .entry(&key.namespace)
                .or_insert_with(|| key.namespace.as_str().into());
            for address in &pod.0 {
                let known = all
                    .entry(*address)
                    .or_insert_with(|| Some(Arc::clone(namespace)));
                if known.as_ref() != Some(namespace) {
                    *known = None;
                }
            }
        }
        self.known.send_replace(Some(all));
    }

    /// Returns true once the pods have been listed.
    pub(crate) fn are_known(&self) -> bool {
        self.known.borrow().is_some()
    }
}

fn namespace(known: Option<&ByAddress>, address: IpAddr) -> Option<Arc<str>> {
    known?.get(&address.to_canonical()).cloned().flatten()
}

/// Addresses of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PodAddresses(Vec<IpAddr>);

impl PodAddresses {
    /// Reads a pod; returns `None` for one that has no address (yet, or any more). Pods in the network of their
    /// node share its address with all other processes there.
    pub(crate) fn read(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let shares_network = pod.spec.as_ref()?.host_network == Some(true);
        if shares_network || matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let others = status.pod_ips.iter().flatten().map(|address| &address.ip);
        let texts = others.chain(&status.pod_ip);
        let mut addresses: Vec<IpAddr> = texts
            .filter_map(|text| text.parse::<IpAddr>().ok())
            .map(|address| address.to_canonical())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        (!addresses.is_empty()).then_some(Self(addresses))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value, status: &Value) -> Option<PodAddresses> {
        let pod = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        PodAddresses::read(&serde_json::from_value(pod).unwrap())
    }

    fn spec() -> Value {
        json!({"containers": []})
    }

    #[test]
    fn a_pod_has_the_addresses_of_its_own_network_while_it_runs() {
        let both = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]});
        let addresses = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        assert_eq!(pod(&spec(), &both), Some(PodAddresses(addresses.to_vec())));
        let host = json!({"containers": [], "hostNetwork": true});
        assert_eq!(pod(&host, &both), None);
        for phase in ["Succeeded", "Failed"] {
            let ended = json!({"podIP": "10.0.0.1", "phase": phase});
            assert_eq!(pod(&spec(), &ended), None);
        }
        assert_eq!(pod(&spec(), &json!({"phase": "Pending"})), None);
        assert_eq!(pod(&spec(), &json!({"podIP": "nonsense"})), None);
    }

    #[test]
    fn an_address_of_several_namespaces_is_that_of_none() {
        let addresses = Addresses::default();
        let at = |text: &str| Arc::new(PodAddresses(vec![text.parse().unwrap()]));
        let pods = [
            ("search", "a", "10.0.0.1"),
            ("search", "b", "10.0.0.2"),
            ("web", "c", "10.0.0.2"),
            ("search", "d", "10.0.0.1"),
            ("search", "e", "10.0.0.2"),
        ];
        let pods = pods.map(|(namespace, name, address)| {
            let key = Key::new(namespace.to_owned(), name.to_owned());
            (key, at(address))
        });
        addresses.set(&BTreeMap::from(pods));
        let namespace_of = |text: &str| addresses.namespace(text.parse().unwrap());
        assert_eq!(namespace_of("10.0.0.1").as_deref(), Some("search"));
        assert_eq!(namespace_of("::ffff:10.0.0.1").as_deref(), Some("search"));
        assert_eq!(namespace_of("10.0.0.2"), None);
        assert_eq!(namespace_of("10.0.0.3"), None);
    }
}
