//! Observation of all stores at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_reclaimer_core::{MountSnapshot, Snapshot};
use tetris_store_layout::{Refresh, Usage};

use super::Reclaimer;
use super::held::{Question, Turn, shares};
use super::progress::Progress;
use super::tenant::{ObservationContext, StoreObservation, Tenant};
use crate::keep_warm::StoreDeclarations;
use crate::report::{ErrorClass, StoredObject};

/// All stores at one moment, in the order of the tenants, and where each lies.
#[derive(Default)]
pub(super) struct Observation {
    pub(super) snapshot: Snapshot,
    /// Objects by store.
    pub(super) stored: Vec<Arc<[StoredObject]>>,
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
        self.stored.push(look.stored);
    }
}

impl Reclaimer {
    /// Observes all stores. The observation of a store that cannot be listed is empty, so the plan
    /// frees nothing there. An object that cannot be asked who holds it counts as held.
    pub(super) fn observe(
        &mut self,
        how: Refresh,
        question: Question,
        now_ms: u64,
        progress: &mut Progress,
    ) -> Observation {
        let tenants = self.tenants.iter_mut();
        let refreshed: Vec<_> = tenants
            .map(|tenant| tenant.marked(|tenant| tenant.refresh(how)))
            .collect();
        let objects: Vec<usize> = self.tenants.iter().map(Tenant::objects).collect();
        let mut seen = Observation::default();
        let tenants = self.tenants.iter_mut().zip(&mut progress.stores);
        for ((tenant, pass), (refreshed, most)) in
            tenants.zip(refreshed.into_iter().zip(shares(&objects)))
        {
            let declared = StoreDeclarations {
                freshness: self.warm.freshness,
                declarations: self.warm.declared_for(&tenant.config.namespaces),
                models: &self.config.models,
            };
            let around = ObservationContext {
                question,
                turn: Turn {
                    pass: self.passes,
                    most,
                    now_ms,
                },
                clock: &self.clock,
                declared: &declared,
                reload: self.config.reload_cost(),
            };
            let name = tenant.config.name.clone();
            let look = refreshed
                .and_then(|()| {
                    let state = &mut self.state;
                    tenant.marked(|tenant| tenant.observe(&around, state))
                })
                .unwrap_or_else(|error| {
                    tracing::warn!(store = name, %error, "store cannot be listed");
                    self.errors.push((ErrorClass::List, Some(name.clone())));
                    StoreObservation::nothing(&tenant.config)
                });
            for error in &look.damaged {
                tracing::warn!(store = name, %error, "record");
                self.errors.push((ErrorClass::Record, Some(name.clone())));
            }
            if let Some(error) = &look.unasked {
                tracing::warn!(store = name, %error, "object counts as held");
                self.errors.push((ErrorClass::Locks, Some(name)));
            }
            pass.loads.add(look.loads);
            seen.add(look, tenant, &self.draining);
        }
        self.expect_arrivals(&mut seen);
        seen
    }

    /// All stores where they lie, without their contents.
    pub(super) fn outline(&self) -> Observation {
        let mut seen = Observation::default();
        for tenant in &self.tenants {
            let look = StoreObservation::nothing(&tenant.config);
            seen.add(look, tenant, &self.draining);
        }
        self.expect_arrivals(&mut seen);
        seen
    }

    /// Counts the stores that may still come to each mount.
    fn expect_arrivals(&self, seen: &mut Observation) {
        for index in 0..seen.mounts.len() {
            let stores = seen.snapshot.stores.iter();
            let on_mount = stores.filter(|store| store.mount == index && store.namespace.is_some());
            let count = on_mount.count();
            let device = seen.mounts.get(index).map(|(device, _)| *device);
            if let (Some(mount), Some(device)) = (seen.snapshot.mounts.get_mut(index), device) {
                mount.arrivals = self.config.file.arrivals(device, count);
            }
        }
    }
}
