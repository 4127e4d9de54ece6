//! Room for loads that wait.

use tetris_reclaimer_core::{Goal, RoomRequest, Shortfall};
use tetris_store_layout::{RecordUse, Usage};

use super::Reclaimer;
use super::observation::Observation;
use super::progress::Progress;
use super::tenant::Tenant;
use crate::room::{RoomNeed, RoomRefusal, RoomResult};

impl Reclaimer {
    /// Requests to the planner. It counts bytes: for a lack of files the request is for slightly
    /// more than the free bytes, so that some objects go.
    pub(super) fn requests(&self, needs: &[RoomNeed], seen: &Observation) -> Vec<RoomRequest> {
        let mut requests = Vec::new();
        for need in needs {
            let Some((store, usage)) = self.usage_of(&need.store, seen) else {
                continue;
            };
            let short_of_files = usage.inodes > 0 && usage.inodes_free < need.inodes;
            let bytes = if short_of_files {
                let share = usage.capacity.saturating_sub(usage.free) / 64;
                need.bytes.max(usage.free.saturating_add(share.max(1)))
            } else {
                need.bytes
            };
            requests.push(RoomRequest { store, bytes });
        }
        requests
    }

    fn usage_of(&self, store: &str, seen: &Observation) -> Option<(usize, Usage)> {
        let stores = &seen.snapshot.stores;
        let index = stores.iter().position(|found| found.name == store)?;
        let usage = self.tenants.get(index)?.store.usage().ok()?;
        Some((index, usage))
    }

    /// Answer to a need at the end of a pass. If the plan had found room, another process has taken
    /// it since, as after any answer. A refusal would be final, so the load is told to try again.
    pub(super) fn answer(
        &self,
        need: &RoomNeed,
        seen: &Observation,
        progress: &Progress,
    ) -> RoomResult {
        let mut room = self.room(need, seen, progress);
        let within_limit = room.missing_bytes <= need.bytes.saturating_sub(room.free_bytes);
        let planned = !progress
            .shortfalls
            .iter()
            .any(|missed| missed.goal == Goal::Requests);
        if planned && within_limit && room.refused == Some(RoomRefusal::InUse) {
            room.refused = None;
        }
        room
    }

    /// Answer to a need by the current usage of the mount.
    pub(super) fn room(
        &self,
        need: &RoomNeed,
        seen: &Observation,
        progress: &Progress,
    ) -> RoomResult {
        let Some((index, usage)) = self.usage_of(&need.store, seen) else {
            return RoomResult {
                refused: Some(RoomRefusal::Unavailable),
                free_bytes: 0,
                freed_bytes: 0,
                missing_bytes: need.bytes,
            };
        };
        let mount = seen
            .snapshot
            .stores
            .get(index)
            .map_or(0, |store| store.mount);
        let limit = self
            .config
            .policy
            .of(&need.store)
            .limit_bytes
            .unwrap_or(u64::MAX);
        let record_limits = self.config.policy.of(&need.store).record_limits();
        // Objects that this pass freed are out of the catalog already.
        let tenant = self.tenants.get(index);
        let used = tenant.map_or(0, Tenant::used_bytes);
        let records = tenant
            .map(|tenant| tenant.records.used())
            .unwrap_or_default();
        let records_fit = need.records == RecordUse::default()
            || records.plus(need.records).is_within(record_limits);
        let over_limit = used.saturating_add(need.bytes).saturating_sub(limit);
        let missing_bytes = need.bytes.saturating_sub(usage.free).max(over_limit);
        let files = usage.inodes == 0 || usage.inodes_free >= need.inodes;
        let refused = if missing_bytes == 0 && files && records_fit {
            None
        } else if self.dry_run {
            Some(RoomRefusal::Unavailable)
        } else if need.bytes > usage.capacity.min(limit) || !need.records.is_within(record_limits) {
            Some(RoomRefusal::TooLarge)
        } else {
            Some(why_refused(&progress.shortfalls))
        };
        RoomResult {
            refused,
            free_bytes: usage.free,
            freed_bytes: progress.freed_bytes.get(&mount).copied().unwrap_or(0),
            missing_bytes,
        }
    }
}

/// Memory of other users of the mount counts as in use.
fn why_refused(shortfalls: &[Shortfall]) -> RoomRefusal {
    let mut requests = shortfalls
        .iter()
        .filter(|missed| missed.goal == Goal::Requests);
    let policy = requests.any(|missed| {
        let kept = missed.kept;
        kept.protected_bytes + kept.young_bytes + kept.guaranteed_bytes > 0
    });
    if policy {
        RoomRefusal::Policy
    } else {
        RoomRefusal::InUse
    }
}
