//! Device memory in use.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::backend::Backend;
use crate::bench::Bench;

/// Device memory in bytes that may remain in use after the processes have ended.
const SLACK_BYTES: u64 = 16 << 20;
/// Time limit for the driver to free the memory of ended processes.
const FREE: Duration = Duration::from_secs(30);

/// Reads the device memory in use.
pub(super) struct Used<'a, D: Backend> {
    bench: &'a Bench<D>,
}

impl<'a, D: Backend> Used<'a, D> {
    pub fn new(bench: &'a Bench<D>) -> Self {
        Self { bench }
    }

    /// Number of bytes in use; on the simulated device, by these processes.
    pub fn bytes(&self, processes: &[u32]) -> Result<u64, BenchError> {
        Ok(self.bench.device.used_bytes(processes)?)
    }
}

/// Waits until the memory in use is back at `idle` bytes, apart from the slack.
pub(super) fn freed<D: Backend>(used: &Used<'_, D>, idle: u64) -> Result<(), BenchError> {
    let deadline = Instant::now() + FREE;
    while used.bytes(&[])? > idle + SLACK_BYTES {
        if Instant::now() > deadline {
            return Err(BenchError::Slow {
                what: "the driver frees the memory of ended processes".to_owned(),
                seconds: FREE.as_secs(),
            });
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
