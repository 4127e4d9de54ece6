//! Policies of other systems for requests to GPUs, through the seam of `tetris-scaler-dispatch`.

mod locality;
mod torpor;

pub use locality::{LALB, LALBO3, LocalityAware};
pub use torpor::TorporRules;
