//! Room for loads that wait.

use tetris_reclaimer_core::{Goal, MountSnapshot, RoomRequest, Shortfall, Space};
use tetris_store_layout::{RecordUse, Refresh, Usage};

use super::Reclaimer;
use super::observation::Observation;
use super::progress::Progress;
use super::tenant::Tenant;
use crate::room::{RoomNeed, RoomRefusal, RoomResult};

/// Room that this pass granted so far, by store.
type Grants = [(usize, Space)];

impl Reclaimer {
    /// Grants room that is free, for which a load need not wait for a pass. Returns `None` for a need that takes a
    /// pass: there is not enough room, or records must fit.
    ///
    /// The stores are listed as they are now. Their records count as the last pass saw them.
    pub fn grant_free(&mut self, needs: &[RoomNeed]) -> Vec<Option<RoomResult>> {
        let mut tenants = self.tenants.iter_mut();
        let is_listed =
            |tenant: &mut Tenant| tenant.marked(|it| it.refresh(Refresh::Changes)).is_ok();
        if self.passes == 0 || !tenants.all(is_listed) {
            return vec![None; needs.len()];
        }
        let (seen, progress) = (self.outline(), Progress::new(&self.tenants));
        let mut grants = Vec::new();
        let mut grant = |need: &RoomNeed| {
            let room = self.room(need, &grants, &seen, &progress);
            if room.refused.is_some() || need.records != RecordUse::default() {
                return None;
            }
            let mut stores = seen.snapshot.stores.iter();
            let index = stores.position(|store| store.name == need.store)?;
            grants.push((index, asked(need)));
            Some(room)
        };
        needs.iter().map(&mut grant).collect()
    }

    /// Requests to the planner. Room that other loads were granted is not free for them.
    pub(super) fn requests(&self, needs: &[RoomNeed], seen: &mut Observation) -> Vec<RoomRequest> {
        let but: Vec<&str> = needs.iter().map(|need| need.store.as_str()).collect();
        for index in 0..seen.mounts.len() {
            let granted = self.granted_on(index, &but, seen);
            let usage = seen.mounts.get(index).map(|(_, usage)| *usage);
            if let (Some(mount), Some(usage)) = (seen.snapshot.mounts.get_mut(index), usage) {
                mount.free_bytes = usage.free.saturating_sub(granted.bytes);
                mount.free_inodes = usage.inodes_free.saturating_sub(granted.inodes);
            }
        }
        let mut requests = Vec::new();
        for need in needs {
            if let Some((store, _)) = self.usage_of(&need.store, seen) {
                requests.push(RoomRequest {
                    store,
                    bytes: need.bytes,
                    inodes: need.inodes,
                });
            }
        }
        requests
    }

    fn usage_of(&self, store: &str, seen: &Observation) -> Option<(usize, Usage)> {
        let stores = &seen.snapshot.stores;
        let index = stores.iter().position(|found| found.name == store)?;
        let usage = self.tenants.get(index)?.store.usage().ok()?;
        Some((index, usage))
    }

    /// Answers to needs at the end of a pass, in their order. Each counts the room that was granted
    /// before it; stores that ask for what they are guaranteed come first.
    pub(super) fn answers(
        &self,
        needs: &[RoomNeed],
        seen: &Observation,
        progress: &Progress,
    ) -> Vec<RoomResult> {
        let shares = self.shares(seen);
        let is_beyond = |need: &RoomNeed| {
            let Some((index, _)) = self.usage_of(&need.store, seen) else {
                return true;
            };
            let used = self.tenants.get(index).map(Tenant::used);
            let share = shares.get(index).copied().unwrap_or_default();
            let then = used.unwrap_or_default().plus(asked(need));
            !then.beyond(share.guaranteed).is_nothing()
        };
        let mut order: Vec<usize> = (0..needs.len()).collect();
        order.sort_by_key(|at| needs.get(*at).is_none_or(is_beyond));
        let (mut grants, mut answers) = (Vec::new(), vec![None; needs.len()]);
        for at in order {
            let (Some(need), Some(answer)) = (needs.get(at), answers.get_mut(at)) else {
                continue;
            };
            let room = self.answer(need, &grants, seen, progress);
            if room.refused.is_none()
                && let Some((index, _)) = self.usage_of(&need.store, seen)
            {
                grants.push((index, asked(need)));
            }
            *answer = Some(room);
        }
        let missing = |need: &RoomNeed| self.room(need, &grants, seen, progress);
        let answers = answers.into_iter().zip(needs);
        answers
            .map(|(answer, need)| answer.unwrap_or_else(|| missing(need)))
            .collect()
    }

    /// Answer to a need at the end of a pass. If the plan had found room, another process has taken
    /// it since, as after any answer. A refusal would be final, so the load is asked to try again.
    fn answer(
        &self,
        need: &RoomNeed,
        grants: &Grants,
        seen: &Observation,
        progress: &Progress,
    ) -> RoomResult {
        let mut room = self.room(need, grants, seen, progress);
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

    /// Returns true if a need is not met by the current usage of the mount.
    pub(super) fn is_unmet(
        &self,
        need: &RoomNeed,
        seen: &Observation,
        progress: &Progress,
    ) -> bool {
        let room = self.room(need, &[], seen, progress);
        room.refused.is_some()
    }

    /// Answer to a need by the current usage of the mount.
    fn room(
        &self,
        need: &RoomNeed,
        grants: &Grants,
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
        let store = seen.snapshot.stores.get(index);
        let mount = store.map_or(0, |store| store.mount);
        let shared = self.shared_mount(mount, seen);
        let place = shared.place(index);
        let limit = shared.shares().of(place).limit;
        let namespace = store.and_then(|store| store.namespace.as_deref());
        let policy = self.config.policy.of_owned(&need.store, namespace);
        let record_limits = policy.record_limits(limit);
        let records = self.tenants.get(index);
        let records = records.map(|tenant| tenant.records.used());
        let records = records.unwrap_or_default();
        let records_fit = need.records == RecordUse::default()
            || records.plus(need.records).is_within(record_limits);
        let others = grants.iter().filter(|(store, _)| {
            let on_it = seen.snapshot.stores.get(*store);
            *store != index && on_it.is_some_and(|store| store.mount == mount)
        });
        let granted = self.granted_on(mount, &[need.store.as_str()], seen);
        let granted = others.fold(granted, |sum, (_, room)| sum.plus(*room));
        let free = free(&usage).beyond(granted);
        let used = self.used_on(&shared);
        let missing = shared.shares().missing(place, &used, asked(need), free);
        let whole = Space {
            bytes: usage.capacity,
            inodes: if usage.inodes == 0 {
                u64::MAX
            } else {
                usage.inodes
            },
        };
        let beyond = |most: Space| !asked(need).beyond(most).is_nothing();
        let refused = if missing.all().is_nothing() && records_fit {
            None
        } else if self.dry_run {
            Some(RoomRefusal::Unavailable)
        } else if beyond(whole) || !need.records.is_within(record_limits) {
            Some(RoomRefusal::TooLarge)
        } else if !missing.within_limit.is_nothing() {
            Some(RoomRefusal::Limit)
        } else if missing.on_mount.is_nothing() && records_fit {
            // There is room, which is kept back.
            Some(RoomRefusal::Policy)
        } else {
            Some(why_refused(&progress.shortfalls))
        };
        RoomResult {
            refused,
            free_bytes: usage.free,
            freed_bytes: progress.freed_bytes.get(&mount).copied().unwrap_or(0),
            missing_bytes: missing.all().bytes,
        }
    }
}

fn asked(need: &RoomNeed) -> Space {
    Space {
        bytes: need.bytes,
        inodes: need.inodes,
    }
}

fn free(usage: &Usage) -> Space {
    let mount = MountSnapshot {
        free_bytes: usage.free,
        inodes: usage.inodes,
        free_inodes: usage.inodes_free,
        ..MountSnapshot::default()
    };
    mount.free()
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
