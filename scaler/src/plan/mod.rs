//! `tetris-scaler plan`.

mod error;
mod quantity;
mod read;

pub use error::PlanError;
