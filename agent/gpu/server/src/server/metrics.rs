//! Counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// Counters of a server since its start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters while they count.
        #[derive(Debug, Default)]
        pub(super) struct Metrics {
            $(pub $name: Count,)*
        }

        impl Metrics {
            /// Reads each counter; together they are no snapshot.
            pub fn counters(&self) -> Counters {
                Counters { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections_accepted;
    /// Connections closed at once: too many in total or of one user.
    connections_refused;
    /// Connections ended because of an invalid message or a stalled client.
    connections_broken;
    /// Models requested by clients.
    acquires;
    /// Of those, models requested without their memory, ahead of their use.
    prefetches;
    /// Models admitted.
    admitted;
    /// Models admitted that were already complete on the device.
    resident;
    /// Models refused.
    refused;
    /// Refusals for lack of device memory, or by a quota.
    refused_no_room;
    /// Models that waited for room.
    waited;
    /// Models released by clients, by message or by hanging up.
    released;
    /// Models evicted.
    evicted;
    /// Of those, models evicted because other programs had the device's memory.
    yielded;
    /// Idle objects dropped to remove holes.
    dropped_objects;
    /// Objects copied to a device.
    copied_objects;
    /// Objects of kept prefixes copied without a client that waits for them.
    prefetched_objects;
    /// Bytes copied from the store's own pages.
    direct_bytes;
    /// Bytes copied through pinned buffers.
    staged_bytes;
    /// Bytes copied from other devices.
    across_bytes;
    /// Attempts to copy from other devices that failed: the objects came from the host.
    failed_across;
    /// Pieces of the store's mappings, of up to 64 MiB, registered with a driver.
    registrations;
    /// Registered pieces that a transfer used after an earlier one.
    reused_registrations;
    /// Transfers that failed.
    failed_transfers;
    /// Transfers skipped because no client wanted them any more.
    skipped_transfers;
    /// Times that a chunk was asked for anew, because the device had no memory for it.
    retried_chunks;
    /// Chunks created.
    chunks_created;
    /// Of those, chunks created while a client waited for them, because no spare fitted.
    awaited_chunks;
    /// Spare chunks that loads got.
    spares_used;
    /// Chunks exported to clients.
    chunks_exported;
    /// Bytes of new chunks set to zero before a client gets them.
    cleared_bytes;
    /// Bytes read back from devices for checks.
    checked_bytes;
    /// Objects checked.
    checked_objects;
    /// Objects found to have other bytes on a device than their names say, and dropped there.
    damaged_objects;
    /// Connections whose process the kernel does not tell: their chunks count until they hang up.
    untracked_connections;
}

/// A number that only rises.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn one(&self) {
        self.add(1);
    }

    /// Adds one. Returns true if it is the first.
    pub fn first(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
