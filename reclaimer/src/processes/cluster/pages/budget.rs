//! Memory for fetched pages: one limit for all clients together.
//!
//! A page counts from before its first byte is read until the last client has read it, and until it
//! is no longer kept for the next one.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory that pages may take.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    free: Arc<Semaphore>,
    bytes: usize,
}

/// A part of the budget for one page.
#[derive(Debug)]
pub(super) struct Reserved(OwnedSemaphorePermit);

/// A page's bytes with their part.
struct Counted {
    bytes: Vec<u8>,
    _reserved: Reserved,
}

impl Budget {
    /// A budget of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(bytes)),
            bytes,
        }
    }

    /// Number of bytes of all pages together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a part, if there is that much left.
    pub(super) fn reserve(&self, bytes: usize) -> Option<Reserved> {
        let permits = u32::try_from(bytes).ok()?;
        let free = Arc::clone(&self.free).try_acquire_many_owned(permits);
        free.ok().map(Reserved)
    }
}

impl Reserved {
    /// The page of these bytes, whose last clone gives the part back. The rest of the part goes back
    /// now.
    pub(super) fn keep(mut self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        let rest = self.0.num_permits().saturating_sub(bytes.len());
        drop(self.0.split(rest));
        Bytes::from_owner(Counted {
            bytes,
            _reserved: self,
        })
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_until_its_last_clone_is_gone() {
        let budget = Budget::new(100);
        let page = budget.reserve(80).unwrap().keep(vec![7; 60]);
        assert!(budget.reserve(41).is_none());
        drop(budget.reserve(40).unwrap());
        let part = page.slice(..10);
        drop(page);
        assert!(budget.reserve(41).is_none());
        assert_eq!(part, [7; 10].as_slice());
        drop(part);
        assert!(budget.reserve(100).is_some());
    }

    #[test]
    fn more_than_all_is_never_given() {
        let budget = Budget::new(100);
        assert!(budget.reserve(101).is_none());
        assert!(budget.reserve(usize::MAX).is_none());
        assert!(budget.reserve(0).is_some());
    }
}
