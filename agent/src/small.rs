//! Small tensors: read and hashed first, for their ids decide the packs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tetris_store_layout::{PackItem, TensorId};

use crate::header::Header;
use crate::source::{Failure, Source};

/// Small tensors are read once for their ids, which decide the packs, and once more for the packs,
/// unless they fit into this many bytes together and are kept.
const KEEP_SMALL: u64 = 256 << 20;

/// Small tensors in file order, with their ids.
#[derive(Debug, Default)]
pub(crate) struct SmallTensors {
    /// Index of the tensor in the header, and what decides about its pack.
    pub(crate) items: Vec<(usize, PackItem)>,
    /// The tensors' bytes, where they were kept.
    pub(crate) kept: Vec<Option<Vec<u8>>>,
}

impl SmallTensors {
    /// Reads and hashes every tensor shorter than `threshold`.
    pub(crate) fn read(
        &mut self,
        header: &Header,
        lengths: &[u64],
        threshold: u64,
        source: &Source,
        threads: usize,
    ) -> Result<(), Failure> {
        let small: Vec<(usize, u64)> = lengths
            .iter()
            .enumerate()
            .filter(|&(_, &len)| len > 0 && len < threshold)
            .map(|(index, &len)| (index, len))
            .collect();
        let total: u64 = small.iter().map(|&(_, len)| len).sum();
        let keep = total <= KEEP_SMALL;
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::with_capacity(small.len()));
        let work = || -> Result<(), Failure> {
            let mut mine = Vec::new();
            loop {
                // A batch at a time: biases are read in less time than it takes to get the lock.
                let start = next.fetch_add(64, Ordering::Relaxed);
                let batch = small.iter().enumerate().skip(start).take(64);
                if batch.len() == 0 {
                    break;
                }
                for (position, &(index, len)) in batch {
                    let begin = header.tensors.get(index).map_or(0, |tensor| tensor.begin);
                    let mut bytes = vec![0; len as usize];
                    source.read_at(&mut bytes, header.data_start + begin)?;
                    let id = TensorId::of(&bytes);
                    mine.push((position, index, PackItem { id, len }, keep.then_some(bytes)));
                }
            }
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&mut mine);
            Ok(())
        };
        let helpers = if total > 4 << 20 { threads - 1 } else { 0 };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
            let mine = work();
            helpers
                .into_iter()
                .map(|helper| helper.join().unwrap_or(Ok(())))
                .fold(mine, Result::and)
        })?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable_by_key(|&(position, ..)| position);
        self.items = found
            .iter()
            .map(|&(_, index, item, _)| (index, item))
            .collect();
        self.kept = found.into_iter().map(|(.., bytes)| bytes).collect();
        Ok(())
    }
}
