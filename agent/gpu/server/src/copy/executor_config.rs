//! Parameters of an executor.

use super::gather::default_threads;
use super::{DEFAULT_GROUP_BYTES, ExecutorConfigError};

/// Parameters of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutorConfig {
    pub(super) streams: usize,
    pub(super) slots: usize,
    pub(super) group_bytes: u64,
    pub(super) pin_limit_bytes: u64,
    /// Number of threads that gather groups in the buffers. With 0 the copying thread does.
    pub(super) gatherers: usize,
}

impl Default for ExecutorConfig {
    /// Two streams keep a copy engine busy while the processor prepares groups. 16 buffers of 2
    /// MiB; at most 16 GiB registered.
    fn default() -> Self {
        Self {
            streams: 2,
            slots: 16,
            group_bytes: DEFAULT_GROUP_BYTES,
            pin_limit_bytes: 16 << 30,
            gatherers: default_threads(),
        }
    }
}

impl ExecutorConfig {
    /// Checks the parameters and returns a configuration.
    ///
    /// Valid are 1 to 16 streams and 1 to 1,024 buffers of `group_bytes`, which is 4 KiB to 1 GiB.
    /// The executor registers at most `pin_limit_bytes` of the store at a time; with 0 all copies
    /// go through the buffers. Up to eight threads fill the buffers, but no more than the process has
    /// cores.
    ///
    /// # Errors
    ///
    /// [`ExecutorConfigError`] if a parameter is out of range.
    pub fn try_new(
        streams: usize,
        slots: usize,
        group_bytes: u64,
        pin_limit_bytes: u64,
    ) -> Result<Self, ExecutorConfigError> {
        let check = |fine: bool, expected, found| {
            fine.then_some(())
                .ok_or(ExecutorConfigError { expected, found })
        };
        check(
            (1..=16).contains(&streams),
            "1 to 16 streams",
            streams as u64,
        )?;
        check(
            (1..=1024).contains(&slots),
            "1 to 1024 buffers",
            slots as u64,
        )?;
        let group = (4096..=1 << 30).contains(&group_bytes);
        check(group, "groups of 4 KiB to 1 GiB", group_bytes)?;
        Ok(Self {
            streams,
            slots,
            group_bytes,
            pin_limit_bytes,
            gatherers: default_threads(),
        })
    }

    /// Limit of the store's registered pages, in bytes.
    pub fn pin_limit_bytes(&self) -> u64 {
        self.pin_limit_bytes
    }

    /// Group size of plans for this executor, in bytes.
    pub fn group_bytes(&self) -> u64 {
        self.group_bytes
    }
}
