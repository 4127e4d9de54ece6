//! State of the stores for `/status`, the inventory and the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_reclaimer_core::{ModelSnapshot, Share, Shortfall, StoreSnapshot};

use super::Reclaimer;
use super::observation::Observation;
use super::tenant::{Tenant, resident_bytes};
use crate::report::{
    Amount, ForeignStatus, HolderCounts, ModelStatus, MountStatus, NodeStatus, ObjectState,
    PagesStatus, RecordStatus, ShortfallStatus, StoreStatus,
};

/// Most foreign entries that are named; one more entry counts the rest.
const MAX_FOREIGN: usize = 100;

impl Reclaimer {
    pub(super) fn status(
        &self,
        seen: &Observation,
        missed: &[Shortfall],
        now_ms: u64,
    ) -> NodeStatus {
        let shares = self.shares(seen);
        let tenants = self.tenants.iter().zip(&seen.snapshot.stores).zip(&shares);
        let stores = tenants
            .zip(&seen.stored)
            .map(|(((tenant, snapshot), share), stored)| StoreStatus {
                inodes: snapshot.used().inodes,
                limit_bytes: limit(share.limit.bytes),
                limit_inodes: limit(share.limit.inodes),
                guaranteed_bytes: share.guaranteed.bytes,
                guaranteed_inodes: share.guaranteed.inodes,
                records: self.record_status(tenant, share),
                device: tenant.device(),
                objects: Arc::clone(stored),
                ..store_status(tenant, snapshot)
            });
        let missing = self.missing.iter().map(|(config, error)| StoreStatus {
            name: config.name.clone(),
            path: config.path.clone(),
            error: Some(error.clone()),
            ..StoreStatus::default()
        });
        NodeStatus {
            node: self.config.file.node.clone(),
            version: env!("CARGO_PKG_VERSION"),
            started_ms: self.started_ms,
            observed_ms: now_ms,
            dry_run: self.dry_run,
            declarations: self.warm.freshness,
            declaring_pods: self.warm.pods.len() as u64,
            // Known to the CSI driver alone.
            volumes: None,
            processes: Vec::new(),
            holder_counts: HolderCounts::NotYet,
            kept: Vec::new(),
            mounts: self.mounts(seen),
            stores: stores.chain(missing).collect(),
            // Known to the GPU mirror alone.
            gpus: Vec::new(),
            shortfalls: missed
                .iter()
                .map(|missed| shortfall(missed, seen))
                .collect(),
        }
    }

    fn record_status(&self, tenant: &Tenant, share: &Share) -> RecordStatus {
        let used = tenant.records.used();
        let config = &tenant.config;
        let policy = self
            .config
            .policy
            .of_owned(&config.name, config.namespace());
        let limits = policy.record_limits(share.limit);
        RecordStatus {
            bytes: used.bytes,
            files: used.files,
            limit_bytes: limits.bytes,
            limit_files: limits.files,
            not_followed: tenant.records.not_followed() as u64,
            quarantined: tenant.set_aside().files,
        }
    }

    fn mounts(&self, seen: &Observation) -> Vec<MountStatus> {
        let mounts = seen.mounts.iter().enumerate();
        mounts
            .map(|(index, (device, usage))| MountStatus {
                stores: names_on(index, seen),
                capacity_bytes: usage.capacity,
                free_bytes: usage.free,
                inodes: usage.inodes,
                inodes_free: usage.inodes_free,
                arrivals: seen
                    .snapshot
                    .mounts
                    .get(index)
                    .map_or(0, |mount| mount.arrivals),
                pages: self.pages.get(device).map(PagesStatus::from),
            })
            .collect()
    }
}

/// A limit, if there is one.
fn limit(most: u64) -> Option<u64> {
    (most < u64::MAX).then_some(most)
}

fn names_on(mount: usize, seen: &Observation) -> Vec<String> {
    let stores = seen.snapshot.stores.iter();
    let on_it = stores.filter(|store| store.mount == mount);
    on_it.map(|store| store.name.clone()).collect()
}

fn shortfall(missed: &Shortfall, seen: &Observation) -> ShortfallStatus {
    let store = missed
        .store
        .and_then(|index| seen.snapshot.stores.get(index));
    let stores = match store {
        Some(store) => vec![store.name.clone()],
        None => names_on(missed.mount, seen),
    };
    ShortfallStatus {
        missing_inodes: missed.missing_inodes,
        ..ShortfallStatus::new(stores, missed.goal, missed.missing_bytes, &missed.kept)
    }
}

fn store_status(tenant: &Tenant, snapshot: &StoreSnapshot) -> StoreStatus {
    let mut warm: Vec<bool> = snapshot.objects.iter().map(|_| false).collect();
    for model in snapshot.models.iter().filter(|model| model.warm) {
        for object in &model.objects {
            if let Some(warm) = warm.get_mut(*object as usize) {
                *warm = true;
            }
        }
    }
    let mut states: BTreeMap<ObjectState, Amount> = BTreeMap::new();
    for (object, warm) in snapshot.objects.iter().zip(warm) {
        let state = match (object.held, warm) {
            (true, _) => ObjectState::Held,
            (false, true) => ObjectState::Warm,
            (false, false) => ObjectState::Idle,
        };
        let amount = states.entry(state).or_default();
        amount.objects += 1;
        amount.bytes += object.allocated_bytes;
    }
    let set_aside = tenant.store.quarantined().unwrap_or_default();
    for entry in &set_aside.objects {
        let amount = states.entry(ObjectState::Quarantined).or_default();
        amount.objects += 1;
        amount.bytes += entry.allocated;
    }
    StoreStatus {
        name: tenant.config.name.clone(),
        path: tenant.config.path.clone(),
        id: Some(tenant.store.id().to_string()),
        error: None,
        states,
        sharing_factor: 1.0,
        models: snapshot
            .models
            .iter()
            .map(|model| model_status(model, snapshot))
            .collect(),
        foreign: foreign(tenant),
        ..StoreStatus::default()
    }
}

fn model_status(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> ModelStatus {
    let objects = model.objects.iter();
    let objects_held = objects
        .filter_map(|object| snapshot.objects.get(*object as usize))
        .filter(|object| object.held);
    ModelStatus {
        id: model.id.to_string(),
        total_bytes: model.total_bytes,
        resident_bytes: resident_bytes(model, snapshot),
        held_bytes: objects_held.map(|object| object.len_bytes).sum(),
        last_use_ms: model.last_use_ms,
        warm: model.warm,
    }
}

fn foreign(tenant: &Tenant) -> Vec<ForeignStatus> {
    let dir = tenant.store.objects_dir();
    let listed = tenant.catalog.listing().foreign.iter();
    let objects = listed.map(|entry| (dir.join(&entry.name), entry.reason.clone()));
    let others = tenant.store.foreign().unwrap_or_default();
    let mut all: Vec<ForeignStatus> = objects
        .chain(others)
        .map(|(path, reason)| ForeignStatus {
            path: path.to_string_lossy().into_owned(),
            reason,
        })
        .collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    let more = all.len().saturating_sub(MAX_FOREIGN);
    if more > 0 {
        all.truncate(MAX_FOREIGN);
        all.push(ForeignStatus {
            path: tenant.config.path.to_string_lossy().into_owned(),
            reason: format!("{more} more entries that do not belong there"),
        });
    }
    all
}
