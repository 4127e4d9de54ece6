//! Tests of code that Python's tests do not reach: names, leases of simulated devices, models over
//! several connections.

mod fake;
mod lease;
mod location;
mod prefetch;
mod served;
