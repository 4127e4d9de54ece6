//! Results of a run, and their output as text, JSON and HTML.

pub mod html;
pub mod legend;
pub mod notes;
pub mod output_file;
pub mod plots;
pub mod progress;
pub mod text;
