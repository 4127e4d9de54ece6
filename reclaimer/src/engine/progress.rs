//! Results of a pass so far.

use std::collections::BTreeMap;

use tetris_reclaimer_core::Shortfall;

use super::tenant::Tenant;
use crate::report::StorePass;

/// Results of a pass so far.
pub(super) struct Progress {
    /// In the order of the tenants.
    pub(super) stores: Vec<StorePass>,
    /// By mount.
    pub(super) freed_bytes: BTreeMap<usize, u64>,
    pub(super) shortfalls: Vec<Shortfall>,
}

impl Progress {
    pub(super) fn new(tenants: &[Tenant]) -> Self {
        let stores = tenants.iter().map(|tenant| StorePass {
            store: tenant.config.name.clone(),
            ..StorePass::default()
        });
        Self {
            stores: stores.collect(),
            freed_bytes: BTreeMap::new(),
            shortfalls: Vec::new(),
        }
    }
}
