//! The plots of the HTML report, as SVG with the page's colors.

mod density;
mod memory;
mod scale;
mod start;
mod svg;

pub use density::density;
pub use memory::memory;
pub use start::start;
pub use svg::escape;
