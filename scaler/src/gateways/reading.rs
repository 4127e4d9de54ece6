//! Reading of one function's load from the pages of the gateways.

use std::collections::BTreeMap;

use tetris_scaler_core::Rate;

use crate::load::LoadError;

/// Load of one function, as all gateways count it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayReading {
    /// Load of the function.
    pub load: Result<Rate, LoadError>,
    /// Loads of its instances by pod: a request per second for each outstanding request, which serves to
    /// compare them.
    pub pods: BTreeMap<String, Rate>,
    /// Latency in service, in microseconds; of several gateways the largest.
    pub latency: Result<u64, LoadError>,
    /// True if a request waits or is served, as far as is known.
    pub is_demanded: bool,
}
