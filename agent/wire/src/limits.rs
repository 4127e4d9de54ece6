//! Limits of frames and texts.

/// Maximum length of a frame in bytes, with its header.
pub const MAX_FRAME_BYTES: usize = 64 << 10;
/// Maximum length of a message's text, in bytes.
pub const MAX_TEXT_BYTES: usize = 512;
