//! The benchmark on host memory, run like a user does.

mod compute;
mod device;
mod fake;
mod family;
mod interrupted;
mod overlap;
mod ptx;
mod refused;
mod script;
mod site;
mod taken;
