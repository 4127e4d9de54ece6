//! Tests of what Python's do not reach: names, leases of devices that are not here, several connections for a model.

mod fake;
mod lease;
mod location;
mod served;
