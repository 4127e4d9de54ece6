//! Injected faults.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of operations of each kind that succeed before all further ones fail. By default nothing
/// fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Number of chunks that can be created before the device is full.
    pub creates: u64,
    /// Number of imports before the device refuses them.
    pub imports: u64,
    /// Number of copies before one fails; its stream fails with it.
    pub copies: u64,
    /// Number of copies from another device before one fails; its stream fails with it.
    pub across: u64,
    /// Number of registrations of host memory before the device refuses them for good.
    pub registrations: u64,
    /// Number of registrations of host memory that the device refuses for the moment, before it
    /// accepts one.
    pub busy_registrations: u64,
    /// Number of pinned buffers before host memory for them is short.
    pub pinned: u64,
    /// Byte of which created chunks are full, in the role of an earlier owner's bytes. `None`:
    /// they are zero.
    pub stale: Option<u8>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            creates: u64::MAX,
            imports: u64::MAX,
            copies: u64::MAX,
            across: u64::MAX,
            registrations: u64::MAX,
            busy_registrations: 0,
            pinned: u64::MAX,
            stale: None,
        }
    }
}

/// The absence of a stale byte.
const NO_BYTE: u64 = u64::MAX;

/// Remaining operations of each kind.
#[derive(Debug)]
pub(super) struct Allowances {
    pub creates: Allowance,
    pub imports: Allowance,
    pub copies: Allowance,
    pub across: Allowance,
    pub registrations: Allowance,
    pub busy_registrations: Allowance,
    pub pinned: Allowance,
    stale: AtomicU64,
}

impl From<Faults> for Allowances {
    fn from(faults: Faults) -> Self {
        let allowances = Self {
            creates: Allowance::default(),
            imports: Allowance::default(),
            copies: Allowance::default(),
            across: Allowance::default(),
            registrations: Allowance::default(),
            busy_registrations: Allowance::default(),
            pinned: Allowance::default(),
            stale: AtomicU64::new(NO_BYTE),
        };
        allowances.set(faults);
        allowances
    }
}

impl Allowances {
    /// Replaces all allowances.
    pub fn set(&self, faults: Faults) {
        self.creates.0.store(faults.creates, Ordering::Relaxed);
        self.imports.0.store(faults.imports, Ordering::Relaxed);
        self.copies.0.store(faults.copies, Ordering::Relaxed);
        self.across.0.store(faults.across, Ordering::Relaxed);
        self.registrations
            .0
            .store(faults.registrations, Ordering::Relaxed);
        self.busy_registrations
            .0
            .store(faults.busy_registrations, Ordering::Relaxed);
        self.pinned.0.store(faults.pinned, Ordering::Relaxed);
        let stale = faults.stale.map_or(NO_BYTE, u64::from);
        self.stale.store(stale, Ordering::Relaxed);
    }

    /// The byte of which created chunks are full.
    pub fn stale_byte(&self) -> Option<u8> {
        u8::try_from(self.stale.load(Ordering::Relaxed)).ok()
    }
}

/// A number of successes.
#[derive(Debug, Default)]
pub(super) struct Allowance(AtomicU64);

impl Allowance {
    /// Takes one; returns false if none is left.
    pub fn take(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.0
            .try_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }
}
