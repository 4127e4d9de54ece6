//! Who and what takes part, and the policy's numbers.

use std::fmt;

use crate::arena::ArenaConfig;

macro_rules! number_newtype {
    ($(#[$doc:meta])* $name:ident($number:ty), $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($what, " {}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_newtype! {
    /// A device, as the driver numbers it.
    DeviceId(u32), "device"
}
number_newtype! {
    /// A tenant: one store. Tenants see nothing of each other.
    TenantId(u32), "tenant"
}
number_newtype! {
    /// A client's connection. Never used again for another one.
    ClientId(u64), "client"
}

/// The numbers of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The sizes of each arena.
    pub arena: ArenaConfig,
    /// Models up to this many bytes are light: they leave first.
    pub light_bytes: u64,
}

impl Default for Config {
    /// Light is what 25 GB/s bring back in some 20 ms, about the time of one inference in Torpor's Table 4.
    fn default() -> Self {
        Self {
            arena: ArenaConfig::default(),
            light_bytes: 512 << 20,
        }
    }
}
