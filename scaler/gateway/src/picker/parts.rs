//! Parts that picks need.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::metrics::Metrics;
use crate::proxy::Proxy;

/// Parts that picks need.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    pub(super) proxy: Proxy,
    pub(super) metrics: Arc<Metrics>,
    pub(super) ready: Arc<AtomicBool>,
}

impl Picker {
    pub(crate) const fn new(proxy: Proxy, metrics: Arc<Metrics>, ready: Arc<AtomicBool>) -> Self {
        Self {
            proxy,
            metrics,
            ready,
        }
    }
}
