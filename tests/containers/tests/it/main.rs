//! The daemon in a container, and pods in others. Needs root and a Docker daemon (tests/docker.sh); a skipped test names what is missing.

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
mod sweep;
mod wait;
