//! Attacks on a whole daemon, one at a time and all at once.

mod attacker;
mod attacks;
mod derived;
mod gateway;
mod gateway_attacks;
mod memory;
mod node;
mod scene;
mod soak;
mod usage;
mod victim;
