//! Reading objects into private memory.

use tetris_loader::{Job, LoadError, LoadFailure, PRIVATE_ALIGN, PrivateBytes, Source, threads};
use tetris_store_layout::SEGMENT_BYTES;

use crate::backing::Backing;
use crate::report::LoadReport;

/// Reads `jobs` from `source` into one buffer, segment by segment over all cores. Returns the jobs'
/// places in it, and the buffer.
pub(super) fn read_private(
    source: &Source,
    jobs: &[Job],
    threads: usize,
    report: &mut LoadReport,
) -> Result<(Vec<Backing>, PrivateBytes), LoadFailure> {
    let padded = |job: &Job| job.len().next_multiple_of(PRIVATE_ALIGN as u64);
    let total: u64 = jobs.iter().map(padded).sum();
    // Starting a thread takes as long as reading the most of a segment.
    let threads = if total <= SEGMENT_BYTES { 1 } else { threads };
    let out_of_memory = || LoadError::OutOfMemory {
        path: source.path().to_owned(),
        bytes: total,
    };
    let mut buffer = PrivateBytes::zeroed(total).ok_or_else(out_of_memory)?;
    let mut rest = buffer.as_mut_slice();
    let (mut at, mut places, mut tasks) = (0, Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        let end = padded(job) as usize;
        let (own, others) = rest.split_at_mut_checked(end).ok_or_else(out_of_memory)?;
        rest = others;
        let own = own.get_mut(..job.len() as usize).unwrap_or_default();
        places.push(Backing::Private {
            buffer: 0,
            range: at..at + own.len(),
        });
        at += end;
        let segments = own.chunks_mut(SEGMENT_BYTES as usize).zip(0u64..);
        tasks.extend(segments.map(|(bytes, index)| (job, index * SEGMENT_BYTES, bytes)));
    }
    report.bytes_read += jobs.iter().map(Job::len).sum::<u64>();
    threads::for_each(threads, tasks, |(job, offset, bytes)| {
        job.read(source, offset, bytes)
    })?;
    Ok((places, buffer))
}
