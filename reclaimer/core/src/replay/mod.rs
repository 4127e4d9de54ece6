//! Policies against traces: which one is the right default.
//!
//! Pure and driven by events: [`catalogue`] makes models in families that share tensors, [`trace`] makes requests for
//! them, [`simulate`] runs one policy on one trace against a store of given size, and [`compare`] runs all and
//! says which is the right default, and by which criterion. Everything follows from a seed.

pub mod catalogue;
pub mod compare;
pub mod rng;
pub mod simulate;
pub mod trace;
