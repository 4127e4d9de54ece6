//! Tests of loads that gateways count.

mod client;
mod loads;
