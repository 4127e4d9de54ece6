//! Statistics.

/// Statistics of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Number of copied groups.
    pub groups: usize,
    /// Number of bytes copied from the store's own pages.
    pub direct_bytes: u64,
    /// Number of bytes copied through the pinned buffers.
    pub staged_bytes: u64,
}
