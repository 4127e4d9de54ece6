//! Tests of selections: Algorithm 1, the exact solver, and their comparison.

mod common;
mod dts;
mod exact;
