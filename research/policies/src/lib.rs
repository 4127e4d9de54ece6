//! Policies of other systems for requests to GPUs, through the seam of `tetris-scaler-dispatch`.

mod locality;
mod prototype;
mod torpor;

pub use locality::{LALB, LALBO3, LocalityAware};
pub use prototype::TorporPrototype;
pub use torpor::TorporRules;
