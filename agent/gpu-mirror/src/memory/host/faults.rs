//! Faults on demand.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many operations of each kind succeed before all further ones fail. Nothing fails by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Chunks created before the device says that it is full.
    pub creates: u64,
    /// Imports before they are refused.
    pub imports: u64,
    /// Copies executed before one fails; the stream it is on fails with it.
    pub copies: u64,
    /// Registrations of host memory before they are refused.
    pub registrations: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            creates: u64::MAX,
            imports: u64::MAX,
            copies: u64::MAX,
            registrations: u64::MAX,
        }
    }
}

/// What is left of each allowance.
#[derive(Debug)]
pub(super) struct Allowances {
    pub creates: Allowance,
    pub imports: Allowance,
    pub copies: Allowance,
    pub registrations: Allowance,
}

impl From<Faults> for Allowances {
    fn from(faults: Faults) -> Self {
        let allowances = Self {
            creates: Allowance::default(),
            imports: Allowance::default(),
            copies: Allowance::default(),
            registrations: Allowance::default(),
        };
        allowances.set(faults);
        allowances
    }
}

impl Allowances {
    /// Begins anew.
    pub fn set(&self, faults: Faults) {
        self.creates.0.store(faults.creates, Ordering::Relaxed);
        self.imports.0.store(faults.imports, Ordering::Relaxed);
        self.copies.0.store(faults.copies, Ordering::Relaxed);
        self.registrations
            .0
            .store(faults.registrations, Ordering::Relaxed);
    }
}

/// A number of successes.
#[derive(Debug, Default)]
pub(super) struct Allowance(AtomicU64);

impl Allowance {
    /// Takes one, if any is left.
    pub fn take(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }
}
