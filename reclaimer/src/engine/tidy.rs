//! Removal of leftovers: records without objects, and quarantined objects.

use tetris_reclaimer_core::records_to_remove;
use tetris_store_layout::RecordUse;

use super::Reclaimer;
use super::observation::Observation;
use super::progress::Progress;
use crate::records::millis;
use crate::report::ErrorClass;
use crate::room::RoomNeed;

impl Reclaimer {
    /// Removes records of which nothing is left, from `all` stores or from those that something was
    /// freed from: a load that waits for room in one need not wait for the records of the others.
    pub(super) fn collect_records(&mut self, all: bool, progress: &mut Progress) {
        for (tenant, pass) in self.tenants.iter_mut().zip(&mut progress.stores) {
            if !all && pass.freed.is_empty() {
                continue;
            }
            match tenant.marked(|tenant| tenant.collect_records()) {
                Ok(removed) => pass.records_removed += removed,
                Err(error) => {
                    let name = &tenant.config.name;
                    tracing::warn!(store = name, %error, "records not collected");
                    self.errors.push((ErrorClass::Record, Some(name.clone())));
                }
            }
        }
    }

    /// Keeps the records of each store, with those that loads are about to write, within their
    /// limits. Returns true if it removed some.
    pub(super) fn trim_records(
        &mut self,
        seen: &Observation,
        needs: &[RoomNeed],
        progress: &mut Progress,
    ) -> bool {
        let mut trimmed = false;
        if self.dry_run {
            return trimmed;
        }
        let shares = self.shares(seen).into_iter();
        let stores = seen.snapshot.stores.iter().zip(&mut progress.stores);
        let stores = stores.zip(shares);
        for (tenant, ((snapshot, pass), share)) in self.tenants.iter_mut().zip(stores) {
            let namespace = snapshot.namespace.as_deref();
            let policy = self.config.policy.of_owned(&snapshot.name, namespace);
            let limits = policy.record_limits(share.limit);
            let of_store = needs.iter().filter(|need| need.store == snapshot.name);
            // A request beyond the limits is refused, and no record goes for it.
            let requests = of_store
                .map(|need| need.records)
                .filter(|more| more.is_within(limits));
            let more = requests.fold(RecordUse::default(), RecordUse::plus);
            if tenant.records.used().plus(more).is_within(limits) {
                continue;
            }
            let names =
                records_to_remove(&tenant.record_files(snapshot, &self.clock), limits, more);
            match tenant.marked(|tenant| tenant.remove_records(&names)) {
                Ok(removed) => {
                    pass.records_removed += removed;
                    trimmed |= removed > 0;
                    tracing::info!(
                        store = snapshot.name,
                        removed,
                        "records were more than the store may have"
                    );
                }
                Err(error) => {
                    let name = &tenant.config.name;
                    tracing::warn!(store = name, %error, "records not removed");
                    self.errors.push((ErrorClass::Record, Some(name.clone())));
                }
            }
        }
        trimmed
    }

    /// Deletes quarantined objects after their time for inspection, or at once when a load waits
    /// for room. Mapped ones stay: deleting them would free nothing.
    pub(super) fn free_quarantined(&mut self, pressed: bool, now_ms: u64) {
        if self.dry_run {
            return;
        }
        let keep_ms = self.config.quarantine().as_millis() as u64;
        for tenant in &self.tenants {
            for entry in tenant.store.quarantined().unwrap_or_default().objects {
                let age_ms = now_ms.saturating_sub(self.clock.moment_ms(millis(entry.changed)));
                if !(pressed || age_ms >= keep_ms) {
                    continue;
                }
                let removed = match tenant.store.is_quarantined_held(&entry.object) {
                    Ok(true) => continue,
                    Ok(false) => tenant.store.remove_quarantined(&entry.object),
                    Err(error) => Err(error),
                };
                if let Err(error) = removed {
                    tracing::warn!(store = tenant.config.name, %error, "quarantine");
                    let store = Some(tenant.config.name.clone());
                    self.errors.push((ErrorClass::Reclaim, store));
                }
            }
        }
    }
}
