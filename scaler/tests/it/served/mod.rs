//! Tests against servers: a simulated API server, simulated daemons, and a real Prometheus.

mod acting;
mod api;
mod crds;
mod daemons;
mod gates;
mod lease;
mod metrics;
mod outage;
mod prometheus;
mod resources_page;
mod rules;
mod watches;
