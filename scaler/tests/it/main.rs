//! The scaler over its real sockets, against clusters, daemons and a Prometheus that the tests simulate.

mod command;
mod gateways;
mod keda;
mod operator;
mod plan;
mod served;
mod whole;
