//! Observation of all stores at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_reclaimer_core::{MountSnapshot, Snapshot};
use tetris_store_layout::{Holders, ObjectId, Refresh, Usage};

use super::Reclaimer;
use super::progress::Progress;
use super::tenant::{ObservationContext, StoreObservation, Tenant};
use crate::keep_warm::StoreDeclarations;
use crate::report::ErrorClass;

/// All stores at one moment, in the order of the tenants, and where each lies.
#[derive(Default)]
pub(super) struct Observation {
    pub(super) snapshot: Snapshot,
    /// Holders by store and object.
    pub(super) holders: Vec<Vec<u64>>,
    /// Objects by store.
    pub(super) ids: Vec<Arc<[ObjectId]>>,
    /// Device and room of each mount.
    pub(super) mounts: Vec<((u64, u64), Usage)>,
}

impl Observation {
    fn add(
        &mut self,
        mut look: StoreObservation,
        tenant: &Tenant,
        draining: &BTreeMap<(u64, u64), bool>,
    ) {
        let device = tenant.device();
        let mount = self.mounts.iter().position(|(found, _)| *found == device);
        look.snapshot.mount = mount.unwrap_or_else(|| {
            // Without the usage no mount counts as full, and no watermark frees anything.
            let usage = tenant.store.usage().unwrap_or_default();
            self.mounts.push((device, usage));
            self.snapshot.mounts.push(MountSnapshot {
                capacity_bytes: usage.capacity,
                free_bytes: usage.free,
                draining: draining.get(&device).copied().unwrap_or(false),
                inodes: usage.inodes,
                free_inodes: usage.inodes_free,
                // Known when all stores are.
                arrivals: 0,
            });
            self.mounts.len() - 1
        });
        self.snapshot.stores.push(look.snapshot);
        self.holders.push(look.holders);
        self.ids.push(look.ids);
    }
}

impl Reclaimer {
    /// Observes all stores. The observation of a store that cannot be listed is empty, so the plan
    /// frees nothing there.
    pub(super) fn observe(
        &mut self,
        how: Refresh,
        now_ms: u64,
        progress: &mut Progress,
    ) -> Observation {
        let holders = Holders::read();
        if let Err(error) = &holders {
            tracing::warn!(%error, "holders are not known: nothing is freed in this pass");
            self.errors.push((ErrorClass::Locks, None));
        }
        let mut seen = Observation::default();
        for (tenant, pass) in self.tenants.iter_mut().zip(&mut progress.stores) {
            let declared = StoreDeclarations {
                freshness: self.warm.freshness,
                declarations: self.warm.declared_for(&tenant.config.namespaces),
                models: &self.config.models,
            };
            let around = ObservationContext {
                holders: holders.as_ref().ok(),
                declared: &declared,
                reload: self.config.reload_cost(),
                now_ms,
            };
            let name = tenant.config.name.clone();
            let look = tenant
                .observe(how, &around, &mut self.state)
                .unwrap_or_else(|error| {
                    tracing::warn!(store = name, %error, "store cannot be listed");
                    self.errors.push((ErrorClass::List, Some(name.clone())));
                    StoreObservation::nothing(&tenant.config)
                });
            for error in &look.damaged {
                tracing::warn!(store = name, %error, "record");
                self.errors.push((ErrorClass::Record, Some(name.clone())));
            }
            pass.loads.add(look.loads);
            seen.add(look, tenant, &self.draining);
        }
        for index in 0..seen.mounts.len() {
            let stores = seen.snapshot.stores.iter();
            let own = stores.filter(|store| store.mount == index && store.namespace.is_some());
            let own = own.count();
            let device = seen.mounts.get(index).map(|(device, _)| *device);
            if let (Some(mount), Some(device)) = (seen.snapshot.mounts.get_mut(index), device) {
                mount.arrivals = self.config.file.arrivals(device, own);
            }
        }
        seen
    }
}
