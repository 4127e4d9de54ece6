//! Tests of decisions: by hand, and invariants in an arbitrary environment.

mod assignments;
mod by_hand;
mod cases;
mod failing;
mod gpus;
mod parts;
mod properties;
mod world;
