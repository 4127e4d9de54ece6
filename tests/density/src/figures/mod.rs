//! What the figures come to: our own bars, and the paper's figures beside ours.

pub mod bars;
pub mod lookup;
pub mod papers;
