//! Attacks on a whole daemon, one at a time and all at once.

#[allow(dead_code, reason = "other tests have more of the API server")]
#[path = "../../../../reclaimer/tests/shared/api.rs"]
mod api;
mod attacker;
mod attacks;
mod derived;
mod gateway;
mod gateway_attacks;
mod memory;
#[path = "../../../../reclaimer/tests/it/namespace.rs"]
mod namespace;
mod node;
#[path = "../../../../reclaimer/tests/shared/reachable.rs"]
mod reachable;
mod scene;
mod soak;
mod usage;
mod victim;
