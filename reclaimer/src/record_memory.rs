//! Memory for the contents of records, which pods write: one budget for all stores of the daemon.

use std::sync::atomic::{AtomicU64, Ordering};

use tetris_conventions::cgroup::memory_limit;
use tetris_service_kit::budget::{Budget, Charge};
use tetris_store_layout::ObjectRef;

/// Memory without a limit of the container, and the most. It has room for 1.4 million objects, those
/// of some thousand models.
const USUAL_BYTES: usize = 64 << 20;
/// The least, which has room for the objects of some hundred models.
const LEAST_BYTES: usize = 8 << 20;
/// The container's memory in units of the budget. Most of it is the tmpfs: with the shipped limit of
/// 8 GiB and a reserve of 512 MiB, the budget is an eighth of the reserve.
const PARTS: u64 = 128;
/// Memory of an object: its entry in the record, and its index in each pass.
const OBJECT_BYTES: usize = size_of::<ObjectRef>() + size_of::<u32>();

/// Number of an open store. A store opened again gets another one.
pub(crate) type StoreNumber = u64;

/// The budget of all stores.
#[derive(Debug, Clone)]
pub(crate) struct AllRecordMemory(Budget<StoreNumber>);

/// The share of one store.
#[derive(Debug, Clone)]
pub(crate) struct RecordMemory {
    store: StoreNumber,
    budget: Budget<StoreNumber>,
}

impl AllRecordMemory {
    /// Creates the budget from the container's limit.
    pub(crate) fn of_container() -> Self {
        let part = memory_limit().map(|limit| limit / PARTS);
        let bytes = part.and_then(|part| usize::try_from(part).ok());
        let bytes = bytes.unwrap_or(USUAL_BYTES);
        Self::new(bytes.clamp(LEAST_BYTES, USUAL_BYTES))
    }

    /// Creates a budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Budget::new(bytes))
    }

    /// Returns the share of another store.
    pub(crate) fn of_store(&self) -> RecordMemory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        RecordMemory {
            store: NEXT.fetch_add(1, Ordering::Relaxed),
            budget: self.0.clone(),
        }
    }
}

impl RecordMemory {
    /// Takes memory for `objects`; `None` if the store has no more.
    pub(crate) fn charge(&self, objects: usize) -> Option<Charge<StoreNumber>> {
        let bytes = objects.saturating_mul(OBJECT_BYTES);
        self.budget.charge(self.store, bytes).ok()
    }

    /// Gives memory back, of which `objects` are left.
    pub(crate) fn shrink(charge: &mut Charge<StoreNumber>, objects: usize) {
        charge.shrink_to(objects.saturating_mul(OBJECT_BYTES));
    }
}
