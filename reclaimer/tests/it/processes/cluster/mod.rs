//! The process with the cluster's token and the network, beside a broker that the tests play.

mod broker;
mod hostile;
mod many;
mod pages;
mod probes;
mod process;
mod questions;
mod together;
