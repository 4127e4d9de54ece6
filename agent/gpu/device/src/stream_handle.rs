//! Streams of other libraries.
#![expect(unsafe_code, reason = "handles of other libraries")]

/// A stream of another library, such as torch's current stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHandle(u64);

impl StreamHandle {
    /// Creates the handle from the driver's, as frameworks show it. 0 is the default stream.
    ///
    /// # Safety
    ///
    /// It is the handle of a stream of the device on which it will be used, and the stream lives
    /// until that use returns.
    pub unsafe fn from_raw(handle: u64) -> Self {
        Self(handle)
    }

    /// The driver's handle.
    pub(super) fn raw(self) -> u64 {
        self.0
    }
}
