//! Decisions: by hand, and what holds in an environment that does what it likes.

mod by_hand;
mod cases;
mod properties;
mod world;
