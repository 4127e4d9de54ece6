//! The manifests of `deploy/`: what they render to, and that they agree with the programs, with each other and with Kubernetes.

mod agreement;
mod arguments;
mod attacks;
mod chart;
mod cluster;
mod configuration;
mod daemon;
mod gateway;
mod golden;
mod gpu;
mod images;
mod inference_pool;
mod monitoring;
mod policies;
mod processes;
mod remote;
mod restricted;
mod rights;
mod sbom;
mod scaler;
mod scaler_dashboard;
mod schemas;
mod size;
