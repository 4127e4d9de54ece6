//! The benchmark on host memory, run like a user does.

mod device;
mod fake;
mod family;
mod interrupted;
mod overlap;
mod refused;
mod script;
mod site;
mod taken;
