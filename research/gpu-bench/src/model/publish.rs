//! Publication of a model in a store, on several threads.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use safetensors::tensor::TensorInfo;
use tetris_store_layout::{Access, ObjectRef, SEGMENT_BYTES, Store, segment_count, segment_len};

use super::content::fill;
use super::{BenchModel, Header, Tensor};
use crate::BenchError;

/// Fills a buffer with an object's bytes from an offset.
type Fill<'a> = dyn Fn(&mut [u8], u64) -> Result<(), BenchError> + 'a;

/// Length of the buffer in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Generates the tensors that [`super::shapes`] lists. Calls `done` with the number of bytes
/// published.
pub(crate) fn make(
    store: &Store,
    shapes: &[(String, Vec<usize>)],
    done: &(dyn Fn(u64) + Sync),
) -> Result<BenchModel, BenchError> {
    let publish = |number: usize, (name, shape): &(String, Vec<usize>)| {
        let len = shape.iter().product::<usize>() as u64 * 2;
        let object = publish_parts(store, len, &|part, at| {
            fill(part, number as u64, at);
            Ok(())
        })?;
        done(len);
        Ok(Tensor {
            name: name.clone(),
            dtype: "BF16".to_owned(),
            shape: shape.clone(),
            object,
        })
    };
    let tensors = on_threads(shapes, &publish)?;
    Ok(BenchModel { tensors })
}

/// Publishes the tensors of a safetensors file. Leaves out empty tensors and duplicates of earlier
/// ones.
pub(crate) fn import(
    store: &Store,
    header: &Header,
    done: &(dyn Fn(u64) + Sync),
) -> Result<BenchModel, BenchError> {
    let failed = |error| BenchError::io("read", &header.path)(error);
    let publish = |_: usize, (name, info): &(String, TensorInfo)| {
        let (start, end) = info.data_offsets;
        let start = header.data_start + start as u64;
        let object = publish_parts(
            store,
            header.data_start + end as u64 - start,
            &|part, at| header.file.read_exact_at(part, start + at).map_err(failed),
        )?;
        done(object.len);
        Ok(Tensor {
            name: name.clone(),
            dtype: info.dtype.to_string(),
            shape: info.shape.clone(),
            object,
        })
    };
    let mut tensors = on_threads(&header.tensors, &publish)?;
    let mut seen = BTreeSet::new();
    tensors.retain(|tensor| seen.insert(tensor.object.id));
    Ok(BenchModel { tensors })
}

/// Publishes an object of `len` bytes, which `read` provides part by part.
fn publish_parts(store: &Store, len: u64, read: &Fill<'_>) -> Result<ObjectRef, BenchError> {
    let staging = store.stage(len)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut digests = Vec::new();
    for segment in 0..segment_count(len) {
        let mut writer = staging.segment(segment);
        let (start, length) = (segment * SEGMENT_BYTES, segment_len(len, segment));
        for at in (0..length).step_by(BUFFER_BYTES) {
            let size = ((length - at) as usize).min(BUFFER_BYTES);
            let part = buffer.get_mut(..size).unwrap_or_default();
            read(part, start + at)?;
            writer.write(part)?;
        }
        digests.push(writer.finish());
    }
    Ok(staging.commit(&digests, Access::ReadOnly)?.object)
}

/// Runs `work` for all items on one thread per processor. Results are in the order of the items.
fn on_threads<T: Sync, R: Send>(
    items: &[T],
    work: &(dyn Fn(usize, &T) -> Result<R, BenchError> + Sync),
) -> Result<Vec<R>, BenchError> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else {
                return Ok(done);
            };
            done.push((number, work(number, item)?));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<Result<Vec<(usize, R)>, BenchError>> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let joined = started.into_iter().map(thread::ScopedJoinHandle::join);
        let panicked = |_| {
            Err(BenchError::Bug(
                "a thread that writes a model panicked".to_owned(),
            ))
        };
        joined.map(|part| part.unwrap_or_else(panicked)).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}
