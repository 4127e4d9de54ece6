//! Tests of the policies by the interface of the scheduler.

mod by_hand;
mod invariants;
