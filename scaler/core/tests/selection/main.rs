//! Which configurations are chosen: Algorithm 1, the exact solver, and how they compare.

mod common;
mod dts;
mod exact;
