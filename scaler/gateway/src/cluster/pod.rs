//! Pods of instances.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tetris_scaler::labels;

/// Port of a server whose pod declares none, as `TETRIS_PORT` has it.
const PORT: u16 = 8_000;
/// Name of the port for requests, where a pod has several.
const PORT_NAME: &str = "http";

/// A pod of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstanceRecord {
    pub(super) function: String,
    pub(super) configuration: String,
    pub(super) uid: String,
    pub(super) address: SocketAddr,
    pub(super) ready: bool,
}

impl InstanceRecord {
    /// Parses a pod; returns `None` for one that is no instance, or has no address (yet).
    pub(super) fn read(pod: &Pod) -> Option<Self> {
        let label = |name| pod.labels().get(name).cloned();
        let status = pod.status.as_ref()?;
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let address: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
        Some(Self {
            function: label(labels::FUNCTION)?,
            configuration: label(labels::CONFIGURATION)?,
            uid: pod.uid()?,
            address: SocketAddr::new(address, port(pod)),
            ready: is_ready(pod),
        })
    }
}

/// Returns true if a pod is ready and not being deleted.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let ready =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

fn port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports: Vec<_> = containers
        .flat_map(|container| container.ports.iter().flatten())
        .collect();
    let named = ports
        .iter()
        .find(|port| port.name.as_deref() == Some(PORT_NAME));
    let port = named.or(ports.first()).map(|port| port.container_port);
    port.and_then(|port| u16::try_from(port).ok())
        .unwrap_or(PORT)
}
