//! The pages of a file system's files, as the daemon reports them.

use serde::Serialize;
use tetris_store_layout::Pages;

/// The pages that files have on a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesStatus {
    /// The measured file: `new-file`, written for the purpose, or `objects`.
    pub of: &'static str,
    /// Number of measured bytes.
    pub looked_at_bytes: u64,
    /// Bytes of these that are mapped by 2 MiB pages.
    pub large_bytes: u64,
    /// The reason why not all are.
    pub small_because: Option<SmallPagesStatus>,
}

/// The reason for pages of 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SmallPagesStatus {
    /// Its name: `kernel`, `shmem-enabled`, `mount-option`, `file-system` or `memory`.
    pub name: &'static str,
    /// In a sentence.
    pub text: String,
}

impl PagesStatus {
    /// Share of the bytes that 2 MiB pages map, from 0 to 1.
    pub fn large_ratio(&self) -> f64 {
        self.large_bytes as f64 / self.looked_at_bytes.max(1) as f64
    }
}

impl From<&Pages> for PagesStatus {
    fn from(pages: &Pages) -> Self {
        let reason = pages.small_because.as_ref();
        Self {
            of: pages.of.name(),
            looked_at_bytes: pages.looked_at,
            large_bytes: pages.large,
            small_because: reason.map(|reason| SmallPagesStatus {
                name: reason.name(),
                text: reason.to_string(),
            }),
        }
    }
}
