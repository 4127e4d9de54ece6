//! Small tensors: read and hashed first, since their ids decide the packs.

use std::sync::Arc;

use tetris_store_layout::{PackItem, TensorId};

use crate::error::{LoadError, LoadFailure};
use crate::header::Header;
use crate::job::KeptBytes;
use crate::model_bytes::ModelBytes;
use crate::private::PrivateBytes;
use crate::threads;

/// Most bytes of small tensors that stay in memory after the read for their ids. More are read once
/// again for the packs.
const KEEP_SMALL: u64 = 256 << 20;
/// Number of tensors that a thread takes at a time: a bias is read in less time than it takes to get the lock.
const BATCH: usize = 64;
/// Number of bytes below which reading is faster than starting a thread.
const WORTH_A_THREAD: u64 = 4 << 20;

/// Small tensors in file order.
#[derive(Debug, Default)]
pub(crate) struct SmallTensors {
    /// The tensors.
    pub(crate) list: Vec<SmallTensor>,
    /// Their bytes one after the other, unless they were too many to keep.
    pub(crate) kept: Option<Arc<PrivateBytes>>,
}

/// A tensor that goes into a pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SmallTensor {
    /// Index of the tensor in the header.
    pub(crate) index: usize,
    /// Offset of its data in the model file.
    source: u64,
    /// Offset of its bytes among the kept ones.
    at: u64,
    /// Its identity and length, which decide its pack; the id is known once it was read.
    pub(crate) item: PackItem,
}

impl SmallTensors {
    /// Reads and hashes every tensor shorter than `threshold` bytes.
    pub(crate) fn read(
        header: &Header,
        threshold: u64,
        source: &dyn ModelBytes,
        threads: usize,
    ) -> Result<Self, LoadFailure> {
        let mut total = 0;
        let mut list = Vec::new();
        for (index, tensor) in header.tensors.iter().enumerate() {
            let len = tensor.byte_len();
            if len > 0 && len < threshold {
                let id = TensorId::of(b"");
                list.push(SmallTensor {
                    index,
                    source: header.data_start + tensor.begin,
                    at: total,
                    item: PackItem { id, len },
                });
                total += len;
            }
        }
        let threads = if total > WORTH_A_THREAD { threads } else { 1 };
        let kept = if total <= KEEP_SMALL {
            let mut kept = allocate(total, source)?;
            hash_kept(&mut list, kept.as_mut_slice(), source, threads)?;
            Some(Arc::new(kept))
        } else {
            hash_all(&mut list, threshold, source, threads)?;
            None
        };
        Ok(Self { list, kept })
    }

    /// The bytes of a tensor, if they were kept.
    pub(crate) fn kept(&self, tensor: &SmallTensor) -> Option<KeptBytes> {
        let bytes = Arc::clone(self.kept.as_ref()?);
        Some(KeptBytes {
            bytes,
            at: tensor.at,
        })
    }
}

fn allocate(bytes: u64, source: &dyn ModelBytes) -> Result<PrivateBytes, LoadError> {
    PrivateBytes::zeroed(bytes).ok_or_else(|| LoadError::OutOfMemory {
        path: source.path().to_owned(),
        bytes,
    })
}

/// Reads the tensors into their places in `kept` and hashes them there.
fn hash_kept(
    list: &mut [SmallTensor],
    mut kept: &mut [u8],
    source: &dyn ModelBytes,
    threads: usize,
) -> Result<(), LoadFailure> {
    let mut batches = Vec::new();
    for batch in list.chunks_mut(BATCH) {
        let len: u64 = batch.iter().map(|tensor| tensor.item.len).sum();
        let (bytes, rest) = kept.split_at_mut_checked(len as usize).unwrap_or_default();
        kept = rest;
        batches.push((batch, bytes));
    }
    threads::for_each(threads, batches, |(batch, mut bytes)| {
        for tensor in batch {
            let len = tensor.item.len as usize;
            let (own, rest) = bytes.split_at_mut_checked(len).unwrap_or_default();
            source.read_at(own, tensor.source)?;
            tensor.item.id = TensorId::of(own);
            bytes = rest;
        }
        Ok(())
    })
}

/// Reads and hashes the tensors and keeps nothing.
fn hash_all(
    list: &mut [SmallTensor],
    threshold: u64,
    source: &dyn ModelBytes,
    threads: usize,
) -> Result<(), LoadFailure> {
    threads::for_each(threads, list.chunks_mut(BATCH).collect(), |batch| {
        let mut buffer = allocate(threshold, source)?;
        for tensor in batch {
            let buffer = buffer.as_mut_slice();
            let target = buffer
                .get_mut(..tensor.item.len as usize)
                .unwrap_or_default();
            source.read_at(target, tensor.source)?;
            tensor.item.id = TensorId::of(target);
        }
        Ok(())
    })
}
