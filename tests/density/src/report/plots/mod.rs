//! The plots of the HTML report, as SVG that takes its colours from the page.

mod density;
mod memory;
mod scale;
mod start;
mod svg;

pub use density::density;
pub use memory::memory;
pub use start::start;
pub use svg::escape;
