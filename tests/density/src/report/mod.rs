//! What a run found, and the three ways it is shown.

pub mod data;
pub mod html;
pub mod notes;
pub mod plots;
pub mod progress;
pub mod text;
