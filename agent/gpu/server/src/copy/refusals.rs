//! Refusals of registrations by a driver.

use std::time::{Duration, Instant};

use tetris_gpu_device::MemoryError;

/// Pause after the first refusal. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Refusals since the last registration, and the pause after them. A driver refuses for a moment
/// where memory is short, so only its answer that it cannot register ends the attempts.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    in_a_row: u32,
    until: Option<Instant>,
    is_final: bool,
    reason: Option<String>,
}

impl Refusals {
    /// Records a refusal.
    pub fn refuse(&mut self, error: &MemoryError, now: Instant) {
        self.reason = Some(error.to_string());
        if matches!(error, MemoryError::Unsupported { .. }) {
            self.is_final = true;
            tracing::warn!(%error, "stores' pages are not registered: copies go through pinned buffers");
            return;
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.in_a_row.min(16));
        let pause = doubled.min(LONGEST_PAUSE);
        self.until = now.checked_add(pause);
        if self.in_a_row == 0 {
            tracing::warn!(%error, ?pause, "stores' pages could not be registered: copies go through pinned buffers for now");
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Records a registration, which ends a pause.
    pub fn accept(&mut self) {
        *self = Self::default();
    }

    /// Records memory that this driver never accepts, as its pages stay read-only. Other memory may
    /// be accepted.
    pub fn skip(&mut self) {
        if self.reason.is_none() {
            let reason = "the driver registers no read-only pages, and this process may not open objects for writing; give it CAP_DAC_OVERRIDE and a writable mount";
            tracing::warn!(
                reason,
                "stores' pages are not registered: copies go through pinned buffers"
            );
            self.reason = Some(reason.to_owned());
        }
    }

    /// True if the driver cannot register host memory.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Rest of the pause. Zero: a registration may be tried.
    pub fn pause(&self, now: Instant) -> Duration {
        self.until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// The last refusal's reason, until a registration succeeds.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> MemoryError {
        MemoryError::Driver {
            action: "register host memory",
            code: 2,
            name: "CUDA_ERROR_OUT_OF_MEMORY".to_owned(),
        }
    }

    #[test]
    fn pauses_grow_to_their_limit_and_end_with_a_registration() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.pause(now), Duration::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            refusals.refuse(&busy(), now);
            pauses.push(refusals.pause(now).as_secs());
        }
        assert_eq!(pauses[..4], [1, 2, 4, 8]);
        assert_eq!(pauses[39], 300);
        assert_eq!(refusals.pause(now + Duration::from_mins(5)), Duration::ZERO);
        assert!(!refusals.is_final());
        assert!(refusals.reason().unwrap().contains("OUT_OF_MEMORY"));
        refusals.accept();
        assert_eq!(refusals.pause(now), Duration::ZERO);
        assert_eq!(refusals.reason(), None);
    }

    #[test]
    fn a_driver_that_cannot_is_final() {
        let mut refusals = Refusals::default();
        let error = MemoryError::Unsupported {
            what: "registering host memory",
            next: "copy through pinned memory",
        };
        refusals.refuse(&error, Instant::now());
        assert!(refusals.is_final());
        assert!(refusals.reason().unwrap().contains("not supported"));
    }
}
