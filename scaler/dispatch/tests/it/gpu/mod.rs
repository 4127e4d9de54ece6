//! Tests of the scheduler of GPUs by its public interface.

mod by_hand;
mod invariants;
mod learned;
