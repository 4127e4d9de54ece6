//! Evaluation of the figures: our own bars, and the paper's figures beside ours.

pub mod bars;
pub mod lookup;
pub mod papers;
