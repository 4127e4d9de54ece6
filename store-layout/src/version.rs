//! The version of the format.

/// Version of everything that LAYOUT.md describes.
pub const FORMAT_VERSION: u32 = 1;
