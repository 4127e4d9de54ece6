//! Tests of the dispatcher by its public interface.

mod batch_wait;
mod by_hand;
mod early_rejection;
mod engines;
mod gpu;
mod health;
mod invariants;
mod shares;
mod world;
