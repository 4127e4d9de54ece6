//! Tests of decisions: by hand, and invariants in an arbitrary environment.

mod by_hand;
mod cases;
mod properties;
mod world;
