//! The benchmark on host memory, run as its users run it.

mod interrupted;
mod refused;
mod site;
mod taken;
