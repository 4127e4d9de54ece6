//! What a server has done.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// What a server has done since it started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The same, in the making.
        #[derive(Debug, Default)]
        pub(super) struct Metrics {
            $(pub $name: Count,)*
        }

        impl Metrics {
            /// The numbers at this moment, each for itself.
            pub fn counters(&self) -> Counters {
                Counters { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Connections that were served.
    connections_accepted;
    /// Connections that were closed at once: too many, in all or of one user.
    connections_refused;
    /// Connections that ended because of what the client sent, or because it stalled.
    connections_broken;
    /// Models that clients asked for.
    acquires;
    /// Models that were admitted.
    admitted;
    /// Models that were admitted and were wholly on the device already.
    resident;
    /// Models that were refused.
    refused;
    /// Of those that were refused: for want of device memory, or by a quota.
    refused_no_room;
    /// Models that had to wait for room.
    waited;
    /// Models that clients gave back, by message or by hanging up.
    released;
    /// Models that were evicted.
    evicted;
    /// Idle objects that were dropped to close holes.
    dropped_objects;
    /// Objects that arrived on a device.
    copied_objects;
    /// Bytes copied from the store's own pages.
    direct_bytes;
    /// Bytes copied through pinned buffers.
    staged_bytes;
    /// Mappings of the store that were registered with a driver.
    registrations;
    /// Mappings that a transfer used and an earlier one had registered.
    reused_registrations;
    /// Transfers that failed.
    failed_transfers;
    /// Transfers that nobody wanted any more when their turn came.
    skipped_transfers;
    /// Chunks that were created.
    chunks_created;
    /// Chunks that were handed out.
    chunks_exported;
}

/// A number that only rises.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn one(&self) {
        self.add(1);
    }

    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
