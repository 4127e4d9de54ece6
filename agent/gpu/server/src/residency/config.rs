//! Identifiers of devices, tenants and clients, and the parameters of the policy.

use std::fmt;

use crate::arena::ArenaConfig;

macro_rules! number_newtype {
    ($(#[$doc:meta])* $name:ident($number:ty), $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    /// A tenant: one store. Tenants share nothing.
    TenantId(u32), "tenant"
}
number_newtype! {
    /// A client's connection. Numbers are never reused.
    ClientId(u64), "client"
}

/// Parameters of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Size parameters of each arena.
    pub arena: ArenaConfig,
    /// Length in bytes up to which a model is light on a device whose link is not known. Light models
    /// leave first.
    pub light_bytes: u64,
}

impl Default for Config {
    /// 512 MiB: a copy at 25 GB/s takes some 20 ms, about one inference in Torpor's Table 4.
    fn default() -> Self {
        Self {
            arena: ArenaConfig::default(),
            light_bytes: 512 << 20,
        }
    }
}
