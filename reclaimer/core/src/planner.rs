//! Planning: requests first, then expiry, limits and watermarks, mount by mount.

use std::collections::BTreeMap;

use crate::candidates::{Candidates, Reach, Taken};
use crate::config::Policy;
use crate::plan::{Action, Goal, KeptBytes, ModelChange, Plan, Reason, Shortfall};
use crate::share::{MountShares, StoreDemand};
use crate::snapshot::{MountSnapshot, Snapshot, SnapshotError};
use crate::space::{Space, part_of};
use crate::state::State;

/// Plans the objects to free at `now_ms`, in milliseconds, with at most `max_actions` actions.
///
/// For each mount, the most urgent first:
///
/// 1. **Waiting loads.** Expired objects first, then the cheapest by the policy's order: from the
///    requesting store while the request would exceed its limit, then from the store with the most
///    beyond its guarantee, then from the requesting store itself, up to the request. A request
///    beyond the store's guarantee leaves the unused guarantees of others free. The keep-alive
///    window does not apply here.
/// 2. **Expired** objects of all stores.
/// 3. **Limits**: a store over its limit frees objects until it is within.
/// 4. **Watermarks**: a mount over the high watermark is brought down to the low one, and any mount
///    until the unused guarantees are free, with objects from the store with the most beyond its
///    guarantee.
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

/// The part of a room that is missing.
#[derive(Debug, Clone, Copy)]
enum Part {
    Bytes,
    Inodes,
}

impl Part {
    fn of(self, space: Space) -> u64 {
        match self {
            Self::Bytes => space.bytes,
            Self::Inodes => space.inodes,
        }
    }
}

/// State of one mount during planning.
struct MountPlan<'a> {
    mount_index: usize,
    mount: &'a MountSnapshot,
    low_bytes: u64,
    high_bytes: u64,
    /// Its stores, ordered by name.
    stores: Vec<Candidates<'a>>,
    /// Shares of the stores, in their order.
    shares: MountShares,
    /// Room that loads request, by store.
    requests: BTreeMap<usize, Space>,
    /// Room that the plan frees.
    planned: Space,
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
        let mut stores: Vec<_> = stores
            .filter(|(_, store)| store.mount == mount_index)
            .collect();
        stores.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let shares = MountShares::new(policy, mount, stores.iter().map(|(_, store)| *store));
        let stores: Vec<Candidates<'a>> = stores
            .into_iter()
            .enumerate()
            .map(|(at, (index, store))| {
                let learned = state.store(&store.name);
                let policy = policy.of_owned(&store.name, store.namespace.as_deref());
                Candidates::new(index, store, policy, shares.of(at), learned, now_ms)
            })
            .collect();
        let mut requests: BTreeMap<usize, Space> = BTreeMap::new();
        for ask in &snapshot.requests {
            if stores
                .iter()
                .any(|candidates| candidates.store_index == ask.store)
            {
                let asked = requests.entry(ask.store).or_default();
                *asked = asked.plus(Space {
                    bytes: ask.bytes,
                    inodes: ask.inodes,
                });
            }
        }
        Self {
            mount_index,
            mount,
            low_bytes: part_of(mount.capacity_bytes, policy.config().low_watermark_percent),
            high_bytes: part_of(mount.capacity_bytes, policy.config().high_watermark_percent),
            stores,
            shares,
            requests,
            planned: Space::default(),
        }
    }

    fn serve_requests(&mut self, plan: &mut Plan) {
        if self.requests.is_empty() {
            return;
        }
        let mut asked = Vec::with_capacity(self.stores.len());
        for at in 0..self.stores.len() {
            asked.push(self.make_room_within_limit(at, plan));
        }
        let missing = |this: &Self| this.missing(&asked);
        self.rewind();
        self.take_each(Reach::Expired, Reason::Pressure, plan, missing);
        self.take_excess(Reach::Any, Reason::Pressure, plan, missing);
        self.take_own(plan, missing);
        self.report(plan, None, Goal::Requests, missing(self));
    }

    /// Room missing for all that is asked for, in the order of the stores: as much must be
    /// free, and the unused guarantees of others besides.
    fn missing(&self, asked: &[Space]) -> Space {
        let demands = self.stores.iter().zip(asked);
        let demands = demands.map(|(candidates, asked)| StoreDemand {
            used: candidates.left,
            asked: *asked,
        });
        let kept = self.shares.kept(demands);
        let needed = asked.iter().fold(kept, |sum, asked| sum.plus(*asked));
        needed.beyond(self.free())
    }

    /// Free room when the plan is carried out.
    fn free(&self) -> Space {
        self.mount.free().plus(self.planned)
    }

    /// Brings the store at `at` so far below its limit that its request fits. Returns the usable
    /// part of the request: room beyond the limit is not worth another store's objects.
    fn make_room_within_limit(&mut self, at: usize, plan: &mut Plan) -> Space {
        let Some(candidates) = self.stores.get_mut(at) else {
            return Space::default();
        };
        let store = candidates.store_index;
        let asked = self.requests.get(&store).copied().unwrap_or_default();
        if asked.is_nothing() {
            return asked;
        }
        let over = |candidates: &Candidates<'_>| {
            let then = candidates.left.plus(asked);
            then.beyond(candidates.share.limit)
        };
        candidates.rewind();
        while !over(candidates).is_nothing()
            && let Some(taken) = candidates.take(Reach::Any, u64::MAX)
        {
            let freed = record(plan, candidates, &taken, Reason::Pressure);
            self.planned = self.planned.plus(freed);
        }
        let missing = over(candidates);
        self.report(plan, Some(store), Goal::Requests, missing);
        asked.beyond(missing)
    }

    fn expire(&mut self, plan: &mut Plan) {
        self.rewind();
        let all = |_: &Self| Space::ENDLESS;
        self.take_each(Reach::Expired, Reason::KeepAliveExpired, plan, all);
    }

    fn enforce_limits(&mut self, plan: &mut Plan) {
        self.rewind();
        let mut missed = Vec::new();
        for candidates in &mut self.stores {
            let limit = candidates.share.limit;
            while !candidates.left.beyond(limit).is_nothing()
                && let Some(taken) = candidates.take(Reach::Ripe, u64::MAX)
            {
                let freed = record(plan, candidates, &taken, Reason::OverQuota);
                self.planned = self.planned.plus(freed);
            }
            missed.push((candidates.store_index, candidates.left.beyond(limit)));
        }
        for (store, missing) in missed {
            self.report(plan, Some(store), Goal::Limit, missing);
        }
    }

    /// Brings the mount down to its low watermark if it is over the high one, and in any case so far
    /// that the guarantees have the room that they still need.
    fn enforce_watermarks(&mut self, plan: &mut Plan) {
        let used = |this: &Self| {
            let used = this
                .mount
                .capacity_bytes
                .saturating_sub(this.mount.free_bytes);
            used.saturating_sub(this.planned.bytes)
        };
        let full = used(self) > self.high_bytes || self.mount.draining;
        let over_low = |this: &Self| {
            let over = used(this).saturating_sub(this.low_bytes);
            Space::of_bytes(if full { over } else { 0 })
        };
        let guarantees = |this: &Self| {
            let used = this.stores.iter().map(|candidates| candidates.left);
            this.shares.unused(used).beyond(this.free())
        };
        let missing = |this: &Self| over_low(this).max(guarantees(this));
        self.rewind();
        self.take_excess(Reach::Ripe, Reason::OverWatermark, plan, missing);
        self.report(plan, None, Goal::LowWatermark, over_low(self));
        self.report(plan, None, Goal::Guarantees, guarantees(self));
    }

    /// Takes from one store after the other until nothing is missing.
    fn take_each(
        &mut self,
        reach: Reach,
        reason: Reason,
        plan: &mut Plan,
        missing: impl Fn(&Self) -> Space,
    ) {
        for at in 0..self.stores.len() {
            while !missing(self).is_nothing()
                && let Some(candidates) = self.stores.get_mut(at)
                && let Some(taken) = candidates.take(reach, u64::MAX)
            {
                let freed = record(plan, candidates, &taken, reason);
                self.planned = self.planned.plus(freed);
            }
        }
    }

    /// Takes from the store with the most beyond its guarantee until nothing is missing: first for
    /// bytes, from the store with the most bytes, then for inodes, from the one with the most inodes.
    /// Never goes below a guarantee, except in a store whose own load waits.
    fn take_excess(
        &mut self,
        reach: Reach,
        reason: Reason,
        plan: &mut Plan,
        missing: impl Fn(&Self) -> Space,
    ) {
        self.take_excess_of(Part::Bytes, reach, reason, plan, &missing);
        if missing(self).inodes > 0 {
            self.rewind();
            self.take_excess_of(Part::Inodes, reach, reason, plan, &missing);
        }
    }

    /// Takes for the want of bytes or inodes. The objects and their order do not depend on the
    /// missing amount, so more need takes a superset.
    fn take_excess_of(
        &mut self,
        part: Part,
        reach: Reach,
        reason: Reason,
        plan: &mut Plan,
        missing: &impl Fn(&Self) -> Space,
    ) {
        let mut open: Vec<bool> = self.stores.iter().map(|_| true).collect();
        while part.of(missing(self)) > 0 {
            let stores = self.stores.iter_mut().zip(&mut open);
            let richest = stores
                .filter(|(candidates, open)| **open && part.of(candidates.excess()) > 0)
                // Of equals, `max_by_key` finds the last: in reverse, the first by name.
                .rev()
                .max_by_key(|(candidates, _)| part.of(candidates.excess()));
            let Some((candidates, open)) = richest else {
                return;
            };
            // A guarantee applies against the need of other stores. If the requesting store's
            // objects were skipped for it, less need could free objects that more need spares.
            let asking = self.requests.contains_key(&candidates.store_index);
            let own_need = asking && reason == Reason::Pressure;
            let most_bytes = match part {
                Part::Bytes if !own_need => candidates.excess().bytes,
                // Each object is one inode.
                Part::Bytes | Part::Inodes => u64::MAX,
            };
            match candidates.take(reach, most_bytes) {
                Some(taken) => {
                    let freed = record(plan, candidates, &taken, reason);
                    self.planned = self.planned.plus(freed);
                }
                None => *open = false,
            }
        }
    }

    /// Takes from the requesting stores themselves until nothing is missing, from each up to its
    /// request.
    fn take_own(&mut self, plan: &mut Plan, missing: impl Fn(&Self) -> Space) {
        self.rewind();
        for at in 0..self.stores.len() {
            let mut given = Space::default();
            loop {
                let missing = missing(self);
                let Some(candidates) = self.stores.get_mut(at) else {
                    break;
                };
                let asked = self.requests.get(&candidates.store_index);
                let Some(asked) = asked.copied() else { break };
                let bytes = missing.bytes > 0 && given.bytes < asked.bytes;
                let inodes = missing.inodes > 0 && given.inodes < asked.inodes;
                if !bytes && !inodes {
                    break;
                }
                let Some(taken) = candidates.take(Reach::Any, u64::MAX) else {
                    break;
                };
                let freed = record(plan, candidates, &taken, Reason::Pressure);
                given = given.plus(freed);
                self.planned = self.planned.plus(freed);
            }
        }
    }

    fn rewind(&mut self) {
        self.stores.iter_mut().for_each(Candidates::rewind);
    }

    fn report(&self, plan: &mut Plan, store: Option<usize>, goal: Goal, missing: Space) {
        if missing.is_nothing() {
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
            missing_bytes: missing.bytes,
            missing_inodes: missing.inodes,
            kept,
        });
    }
}

/// Adds a taken object to the plan. Returns the room that it frees.
fn record(plan: &mut Plan, candidates: &Candidates<'_>, taken: &Taken, reason: Reason) -> Space {
    let Some(object) = candidates.store.objects.get(taken.object as usize) else {
        return Space::default();
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
    Space {
        bytes: taken.bytes,
        inodes: 1,
    }
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
