//! The daemon in a container, and pods in others. Needs root and a Docker daemon (tests/docker.sh); what is left out says so.

#[expect(dead_code, reason = "namespaces come and go in the daemon's own tests")]
#[path = "../../../../reclaimer/tests/shared/api.rs"]
mod api;
mod broker_down;
mod cgroup;
mod docker;
mod driver;
mod host;
mod hostile;
mod image;
mod kubelet;
mod node;
mod node_container;
mod pod;
mod propagation;
mod sharing;
#[path = "../../../../reclaimer/tests/shared/skipped.rs"]
mod skipped;
mod sweep;
mod wait;
