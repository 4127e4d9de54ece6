//! The scaler against servers: an API server that the tests play, daemons of nodes, and a real Prometheus.

mod acting;
mod api;
mod crds;
mod daemons;
mod lease;
mod prometheus;
mod rules;
mod watches;
