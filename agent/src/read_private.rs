//! Reading objects into private memory.

use tetris_store_layout::SEGMENT_BYTES;

use crate::error::LoadError;
use crate::model::Backing;
use crate::options::LoadOptions;
use crate::plan::Job;
use crate::private::PrivateBytes;
use crate::report::LoadReport;
use crate::source::{Failure, Source};
use crate::threads;

/// Reads `jobs` from `source`, segment by segment over all cores.
pub(crate) fn read_private(
    source: &Source,
    jobs: &[Job],
    options: &LoadOptions,
    report: &mut LoadReport,
) -> Result<Vec<Backing>, Failure> {
    let mut buffers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let buffer = PrivateBytes::zeroed(job.len).ok_or_else(|| LoadError::OutOfMemory {
            path: source.path().to_owned(),
            bytes: job.len,
        })?;
        buffers.push(buffer);
    }
    let mut tasks = Vec::new();
    for (job, buffer) in jobs.iter().zip(&mut buffers) {
        let segments = buffer.as_mut_slice().chunks_mut(SEGMENT_BYTES as usize);
        tasks.extend(
            segments
                .zip(0u64..)
                .map(|(bytes, index)| (job, index * SEGMENT_BYTES, bytes)),
        );
    }
    report.bytes_read += jobs.iter().map(|job| job.len).sum::<u64>();
    threads::for_each(options.thread_count(), tasks, |(job, offset, bytes)| {
        job.read(source, offset, bytes)
    })?;
    Ok(buffers.into_iter().map(Backing::Private).collect())
}
