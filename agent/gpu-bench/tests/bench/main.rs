//! The benchmark on host memory, run as its users run it.

mod device;
mod fake;
mod family;
mod interrupted;
mod overlap;
mod refused;
mod site;
mod taken;
