//! Planning: requests first, then expiry, limits and watermarks, mount by mount.

use std::collections::BTreeMap;

use crate::candidates::{Candidates, Reach, Taken};
use crate::config::Policy;
use crate::plan::{Action, Goal, KeptBytes, ModelChange, Plan, Reason, Shortfall};
use crate::snapshot::{MountSnapshot, Snapshot, SnapshotError};
use crate::state::State;

/// Plans the objects to free at `now_ms`, in milliseconds, with at most `max_actions` actions.
///
/// For each mount, the most urgent first:
///
/// 1. **Waiting loads.** Expired objects first, then the cheapest by the policy's order: from the
///    requesting store while the request would exceed its limit, then from the store with the most
///    bytes beyond its guarantee, then from the requesting store itself, up to the requested bytes.
///    The keep-alive window does not apply here.
/// 2. **Expired** objects of all stores.
/// 3. **Limits**: a store over its limit frees objects until it is within.
/// 4. **Watermarks**: a mount over the high watermark is brought down to the low one, with objects
///    from the store with the most bytes beyond its guarantee.
///
/// Held objects and those of models declared warm stay. [`Plan::shortfalls`] lists the goals that
/// the plan misses because of them.
///
/// # Errors
///
/// [`SnapshotError`] if the snapshot is contradictory.
pub fn plan(
    snapshot: &Snapshot,
    policy: &Policy,
    state: &State,
    now_ms: u64,
    max_actions: usize,
) -> Result<Plan, SnapshotError> {
    snapshot.validate()?;
    let mut plan = Plan::default();
    let mut mounts: Vec<MountPlan<'_>> = snapshot
        .mounts
        .iter()
        .enumerate()
        .map(|(index, mount)| MountPlan::new(snapshot, policy, state, now_ms, index, mount))
        .collect();
    for step in [
        MountPlan::serve_requests,
        MountPlan::expire,
        MountPlan::enforce_limits,
        MountPlan::enforce_watermarks,
    ] {
        for mount in &mut mounts {
            step(mount, &mut plan);
        }
    }
    drop(mounts);
    plan.cut_short = plan.actions.len() > max_actions;
    plan.actions.truncate(max_actions);
    plan.models = changes(snapshot, &plan.actions);
    Ok(plan)
}

/// State of one mount during planning.
struct MountPlan<'a> {
    mount_index: usize,
    mount: &'a MountSnapshot,
    low_bytes: u64,
    high_bytes: u64,
    /// Its stores, ordered by name.
    stores: Vec<Candidates<'a>>,
    /// Number of bytes that loads request, by store.
    requests: BTreeMap<usize, u64>,
    planned_bytes: u64,
}

impl<'a> MountPlan<'a> {
    fn new(
        snapshot: &'a Snapshot,
        policy: &'a Policy,
        state: &State,
        now_ms: u64,
        mount_index: usize,
        mount: &'a MountSnapshot,
    ) -> Self {
        let stores = snapshot.stores.iter().enumerate();
        let mut stores: Vec<Candidates<'a>> = stores
            .filter(|(_, store)| store.mount == mount_index)
            .map(|(index, store)| {
                let learned = state.store(&store.name);
                Candidates::new(index, store, policy.of(&store.name), learned, now_ms)
            })
            .collect();
        stores.sort_by(|a, b| a.store.name.cmp(&b.store.name));
        let mut requests = BTreeMap::new();
        for ask in &snapshot.requests {
            if stores
                .iter()
                .any(|candidates| candidates.store_index == ask.store)
            {
                let bytes: &mut u64 = requests.entry(ask.store).or_default();
                *bytes = bytes.saturating_add(ask.bytes);
            }
        }
        Self {
            mount_index,
            mount,
            low_bytes: percent(mount.capacity_bytes, policy.config().low_watermark_percent),
            high_bytes: percent(mount.capacity_bytes, policy.config().high_watermark_percent),
            stores,
            requests,
            planned_bytes: 0,
        }
    }

    fn serve_requests(&mut self, plan: &mut Plan) {
        if self.requests.is_empty() {
            return;
        }
        let mut asked = 0_u64;
        for at in 0..self.stores.len() {
            asked = asked.saturating_add(self.make_room_within_limit(at, plan));
        }
        let missing = |this: &Self| {
            let free = this.mount.free_bytes.saturating_add(this.planned_bytes);
            asked.saturating_sub(free)
        };
        self.rewind();
        self.take_each(Reach::Expired, Reason::Pressure, plan, missing);
        self.take_excess(Reach::Any, Reason::Pressure, plan, missing);
        self.take_own(plan, missing);
        self.report(plan, None, Goal::Requests, missing(self));
    }

    /// Brings the store at `at` so far below its limit that its request fits. Returns the usable
    /// part of the request in bytes: room beyond the limit is not worth another store's objects.
    fn make_room_within_limit(&mut self, at: usize, plan: &mut Plan) -> u64 {
        let Some(candidates) = self.stores.get_mut(at) else {
            return 0;
        };
        let asked = self
            .requests
            .get(&candidates.store_index)
            .copied()
            .unwrap_or(0);
        let Some(limit) = candidates.policy.limit_bytes.filter(|_| asked > 0) else {
            return asked;
        };
        let over = |candidates: &Candidates<'_>| {
            candidates
                .left_bytes
                .saturating_add(asked)
                .saturating_sub(limit)
        };
        let store = candidates.store_index;
        candidates.rewind();
        while over(candidates) > 0
            && let Some(taken) = candidates.take(Reach::Any, u64::MAX)
        {
            self.planned_bytes += record(plan, candidates, &taken, Reason::Pressure);
        }
        let missing = over(candidates);
        self.report(plan, Some(store), Goal::Requests, missing);
        asked.saturating_sub(missing)
    }

    fn expire(&mut self, plan: &mut Plan) {
        self.rewind();
        let all = |_: &Self| u64::MAX;
        self.take_each(Reach::Expired, Reason::KeepAliveExpired, plan, all);
    }

    fn enforce_limits(&mut self, plan: &mut Plan) {
        self.rewind();
        let mut missed = Vec::new();
        for candidates in &mut self.stores {
            let limit = candidates.policy.limit_bytes.unwrap_or(u64::MAX);
            while candidates.left_bytes > limit
                && let Some(taken) = candidates.take(Reach::Ripe, u64::MAX)
            {
                self.planned_bytes += record(plan, candidates, &taken, Reason::OverQuota);
            }
            missed.push((
                candidates.store_index,
                candidates.left_bytes.saturating_sub(limit),
            ));
        }
        for (store, missing) in missed {
            self.report(plan, Some(store), Goal::Limit, missing);
        }
    }

    fn enforce_watermarks(&mut self, plan: &mut Plan) {
        let used = |this: &Self| {
            let used = this
                .mount
                .capacity_bytes
                .saturating_sub(this.mount.free_bytes);
            used.saturating_sub(this.planned_bytes)
        };
        if used(self) <= self.high_bytes && !self.mount.draining {
            return;
        }
        let missing = |this: &Self| used(this).saturating_sub(this.low_bytes);
        self.rewind();
        self.take_excess(Reach::Ripe, Reason::OverWatermark, plan, missing);
        self.report(plan, None, Goal::LowWatermark, missing(self));
    }

    /// Takes from one store after the other until nothing is missing.
    fn take_each(
        &mut self,
        reach: Reach,
        reason: Reason,
        plan: &mut Plan,
        missing: impl Fn(&Self) -> u64,
    ) {
        for at in 0..self.stores.len() {
            while missing(self) > 0
                && let Some(candidates) = self.stores.get_mut(at)
                && let Some(taken) = candidates.take(reach, u64::MAX)
            {
                self.planned_bytes += record(plan, candidates, &taken, reason);
            }
        }
    }

    /// Takes from the store with the most bytes beyond its guarantee until nothing is missing.
    /// Never goes below a guarantee, except in a store whose own load waits. The objects and their
    /// order do not depend on the missing bytes, so more need takes a superset.
    fn take_excess(
        &mut self,
        reach: Reach,
        reason: Reason,
        plan: &mut Plan,
        missing: impl Fn(&Self) -> u64,
    ) {
        let mut open: Vec<bool> = self.stores.iter().map(|_| true).collect();
        while missing(self) > 0 {
            let stores = self.stores.iter_mut().zip(&mut open);
            let richest = stores
                .filter(|(candidates, open)| **open && candidates.excess_bytes() > 0)
                // Of equals, `max_by_key` finds the last: in reverse, the first by name.
                .rev()
                .max_by_key(|(candidates, _)| candidates.excess_bytes());
            let Some((candidates, open)) = richest else {
                return;
            };
            // A guarantee applies against the need of other stores. If the requesting store's
            // objects were skipped for it, less need could free objects that more need spares.
            let asking = self.requests.contains_key(&candidates.store_index);
            let most_bytes = match reason {
                Reason::Pressure if asking => u64::MAX,
                _ => candidates.excess_bytes(),
            };
            match candidates.take(reach, most_bytes) {
                Some(taken) => self.planned_bytes += record(plan, candidates, &taken, reason),
                None => *open = false,
            }
        }
    }

    /// Takes from the requesting stores themselves until nothing is missing, from each up to its
    /// request.
    fn take_own(&mut self, plan: &mut Plan, missing: impl Fn(&Self) -> u64) {
        self.rewind();
        for at in 0..self.stores.len() {
            let mut given = 0;
            while missing(self) > 0
                && let Some(candidates) = self.stores.get_mut(at)
                && let Some(asked) = self.requests.get(&candidates.store_index)
                && given < *asked
                && let Some(taken) = candidates.take(Reach::Any, u64::MAX)
            {
                given += taken.bytes;
                self.planned_bytes += record(plan, candidates, &taken, Reason::Pressure);
            }
        }
    }

    fn rewind(&mut self) {
        self.stores.iter_mut().for_each(Candidates::rewind);
    }

    fn report(&self, plan: &mut Plan, store: Option<usize>, goal: Goal, missing_bytes: u64) {
        if missing_bytes == 0 {
            return;
        }
        let mut kept = KeptBytes::default();
        for candidates in &self.stores {
            if store.is_none_or(|store| store == candidates.store_index) {
                candidates.add_kept(&mut kept);
            }
        }
        plan.shortfalls.push(Shortfall {
            mount: self.mount_index,
            store,
            goal,
            missing_bytes,
            kept,
        });
    }
}

/// Adds a taken object to the plan. Returns its bytes.
fn record(plan: &mut Plan, candidates: &Candidates<'_>, taken: &Taken, reason: Reason) -> u64 {
    let Some(object) = candidates.store.objects.get(taken.object as usize) else {
        return 0;
    };
    let reason = match reason {
        // It would be freed without the need as well.
        _ if taken.expired => Reason::KeepAliveExpired,
        Reason::OverWatermark => candidates.policy.order.watermark_reason(),
        Reason::KeepAliveExpired | Reason::Pressure | Reason::OverQuota | Reason::Cost => reason,
    };
    plan.actions.push(Action {
        store: candidates.store_index,
        object: taken.object,
        id: object.id,
        bytes: taken.bytes,
        reason,
        priority: taken.priority,
    });
    taken.bytes
}

/// `part` percent of `bytes`.
fn percent(bytes: u64, part: u32) -> u64 {
    let part = u128::from(bytes) * u128::from(part) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Models that lose objects.
fn changes(snapshot: &Snapshot, actions: &[Action]) -> Vec<ModelChange> {
    let mut changes = Vec::new();
    if actions.is_empty() {
        return changes;
    }
    for (store_index, store) in snapshot.stores.iter().enumerate() {
        let mut freed: Vec<bool> = store.objects.iter().map(|_| false).collect();
        for action in actions.iter().filter(|action| action.store == store_index) {
            if let Some(freed) = freed.get_mut(action.object as usize) {
                *freed = true;
            }
        }
        for (index, model) in store.models.iter().enumerate() {
            let mut objects = model.objects.clone();
            objects.sort_unstable();
            objects.dedup();
            let (mut before_bytes, mut after_bytes) = (0_u64, 0_u64);
            let (mut loses, mut gone) = (false, true);
            for object in objects {
                let at = object as usize;
                let (Some(object), Some(&freed)) = (store.objects.get(at), freed.get(at)) else {
                    continue;
                };
                before_bytes = before_bytes.saturating_add(object.len_bytes);
                if freed {
                    loses = true;
                } else {
                    gone = false;
                    after_bytes = after_bytes.saturating_add(object.len_bytes);
                }
            }
            if loses {
                changes.push(ModelChange {
                    store: store_index,
                    model: index,
                    id: model.id,
                    before_bytes,
                    after_bytes,
                    gone,
                });
            }
        }
    }
    changes.sort_by_key(|change| (change.store, change.id));
    changes
}
