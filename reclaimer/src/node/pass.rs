//! One pass: look, plan, free, look again where the plan met what it did not expect.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tetris_reclaimer_core::{
    Action, Event, Goal, Mount, Plan, Reason, RoomRequest, Shortfall, Snapshot, plan,
};
use tetris_store_layout::{Holders, ObjectId, Reclaimed, Refresh, Usage};

use super::{Node, Passed};
use crate::report::{ErrorClass, PassReport, StorePass, Trigger};
use crate::tenant::{Look, Tenant};
use crate::warmth::Declared;

/// Everything is looked at anew after so long, whatever has changed: the safety net.
const FULL_MS: u64 = 10 * 60 * 1000;
/// Objects that are freed before the next look, so that a load that began meanwhile is noticed.
const MAX_ACTIONS: usize = 10_000;
/// How often a pass looks again because what it wanted to free was mapped meanwhile, or there is more to do.
const MAX_ROUNDS: u32 = 64;

/// A load that waits for room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The store's name.
    pub store: String,
    /// Bytes that have to be free on its mount.
    pub bytes: u64,
    /// Files that it has to be possible to make there.
    pub inodes: u64,
}

/// What came of a need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Why there is no room; none when what was asked for is free now. Others may take it first.
    pub refused: Option<Refused>,
    /// What is free on the mount.
    pub free_bytes: u64,
    /// What the pass freed there, in bytes.
    pub freed_bytes: u64,
    /// What is missing, in bytes; 0 when only files are.
    pub missing_bytes: u64,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The store cannot be used now, or nothing is freed because this is a dry run.
    Unavailable,
    /// It could not be held by the mount, or within the store's limit, if nothing else were there.
    TooLarge,
    /// What is left is mapped.
    InUse,
    /// Something that nobody maps is kept by policy: it is declared warm, or guaranteed to another store.
    Policy,
}

/// All stores at one moment, and where each lies.
pub(super) struct Sight {
    pub(super) snapshot: Snapshot,
    /// Holders by store and object.
    pub(super) holders: Vec<Vec<u64>>,
    /// Device and room of each mount.
    pub(super) mounts: Vec<((u64, u64), Usage)>,
}

/// What a pass has done so far.
struct Progress {
    stores: Vec<StorePass>,
    freed_bytes: BTreeMap<usize, u64>,
    shortfalls: Vec<Shortfall>,
}

impl Node {
    /// Makes a pass. `needs` are served before anything else.
    pub fn pass(&mut self, trigger: Trigger, needs: &[Need], now_ms: u64) -> Passed {
        let began = Instant::now();
        self.open_missing();
        let full = now_ms.saturating_sub(self.full_ms) >= FULL_MS;
        let mut how = Refresh::Changes;
        if full {
            self.full_ms = now_ms;
            how = Refresh::Everything;
        }
        let mut progress = Progress {
            stores: self
                .tenants
                .iter()
                .map(|t| StorePass {
                    store: t.config.name.clone(),
                    ..StorePass::default()
                })
                .collect(),
            freed_bytes: BTreeMap::new(),
            shortfalls: Vec::new(),
        };
        self.free_quarantined(!needs.is_empty(), now_ms);
        let mut sight = self.look(how, now_ms, &mut progress);
        for round in 0.. {
            let freed = self.round(&mut sight, needs, now_ms, &mut progress);
            let again = match freed {
                Round::Done => false,
                Round::More => !self.dry_run && round < MAX_ROUNDS,
            };
            if !again {
                break;
            }
            sight = self.look(Refresh::Changes, now_ms, &mut progress);
        }
        let freed = progress.freed_bytes.values().any(|bytes| *bytes > 0);
        if (freed || full) && !self.dry_run {
            self.collect_records(&mut progress);
        }
        if freed && !self.dry_run {
            sight = self.look(Refresh::Changes, now_ms, &mut progress);
        }
        let rooms = needs.iter().map(|need| self.room(need, &sight, &progress));
        Passed {
            rooms: rooms.collect(),
            status: self.status(&sight, &progress.shortfalls, now_ms),
            report: PassReport {
                trigger,
                duration: began.elapsed(),
                stores: progress.stores,
                errors: std::mem::take(&mut self.errors),
            },
        }
    }

    /// Looks at all stores. A store that cannot be looked at is left out until the next pass: what is not
    /// seen is not freed.
    fn look(&mut self, how: Refresh, now_ms: u64, progress: &mut Progress) -> Sight {
        let mut sight = Sight {
            snapshot: Snapshot::default(),
            holders: Vec::new(),
            mounts: Vec::new(),
        };
        let holders = match Holders::read() {
            Ok(holders) => Some(holders),
            Err(error) => {
                tracing::warn!(%error, "holders are not known: nothing is freed in this pass");
                self.errors.push((ErrorClass::Locks, None));
                None
            }
        };
        for (tenant, pass) in self.tenants.iter_mut().zip(&mut progress.stores) {
            let declared = Declared {
                freshness: self.warm.freshness,
                declarations: self.warm.declared_for(&tenant.config.namespaces),
                models: &self.config.models,
            };
            let name = tenant.config.name.clone();
            let reload = self.config.reload_cost();
            let none = Holders::default();
            let known = holders.as_ref().unwrap_or(&none);
            let looked = tenant
                .look(how, known, &declared, reload, now_ms, &mut self.state)
                .and_then(|look| Ok((look, tenant.store.usage()?)));
            let (mut look, usage) = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    tracing::warn!(store = name, %error, "store cannot be listed");
                    self.errors.push((ErrorClass::List, Some(name.clone())));
                    let look = Look::nothing(name);
                    let usage = Usage {
                        capacity: 0,
                        free: 0,
                        inodes: 0,
                        inodes_free: 0,
                    };
                    (look, usage)
                }
            };
            for error in &look.damaged {
                tracing::warn!(store = look.snapshot.name, %error, "record");
                let store = Some(look.snapshot.name.clone());
                self.errors.push((ErrorClass::Record, store));
            }
            if holders.is_none() {
                look.snapshot
                    .objects
                    .iter_mut()
                    .for_each(|object| object.held = true);
            }
            pass.loads.add(look.loads);
            let device = tenant.device();
            let mount = sight.mounts.iter().position(|(found, _)| *found == device);
            look.snapshot.mount = mount.unwrap_or_else(|| {
                sight.mounts.push((device, usage));
                sight.snapshot.mounts.push(Mount {
                    capacity_bytes: usage.capacity,
                    free_bytes: usage.free,
                    draining: self.draining.get(&device).copied().unwrap_or(false),
                });
                sight.mounts.len() - 1
            });
            sight.snapshot.stores.push(look.snapshot);
            sight.holders.push(look.holders);
        }
        sight
    }

    /// Plans once and carries it out.
    fn round(
        &mut self,
        sight: &mut Sight,
        needs: &[Need],
        now_ms: u64,
        progress: &mut Progress,
    ) -> Round {
        sight.snapshot.requests = self.requests(needs, sight);
        let most = if self.dry_run {
            usize::MAX
        } else {
            MAX_ACTIONS
        };
        let plan = match plan(
            &sight.snapshot,
            &self.config.policy,
            &self.state,
            now_ms,
            most,
        ) {
            Ok(plan) => plan,
            Err(error) => {
                // A bug of ours; nothing is freed on the strength of it.
                tracing::error!(%error, "stores contradict themselves");
                self.errors.push((ErrorClass::List, None));
                return Round::Done;
            }
        };
        progress.shortfalls.clone_from(&plan.shortfalls);
        let spared = self.carry_out(&plan, sight, progress);
        self.note_draining(&plan, sight);
        let unmet = |need: &Need| {
            self.room(need, sight, progress).refused.is_some() && !plan.actions.is_empty()
        };
        if plan.cut_short || spared > 0 || needs.iter().any(unmet) {
            return Round::More;
        }
        Round::Done
    }

    /// What is asked of the planner. It counts bytes: when files are what is missing, it is asked for a little more
    /// than is free, so that some objects go.
    fn requests(&self, needs: &[Need], sight: &Sight) -> Vec<RoomRequest> {
        let mut requests = Vec::new();
        for need in needs {
            let Some((store, usage)) = self.usage_of(&need.store, sight) else {
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

    /// Frees what the plan says. Returns how many objects somebody maps after all.
    fn carry_out(&mut self, plan: &Plan, sight: &Sight, progress: &mut Progress) -> u64 {
        let mut spared = 0;
        let mut stays: BTreeSet<(usize, ObjectId)> = BTreeSet::new();
        let mut gone: BTreeMap<usize, BTreeSet<ObjectId>> = BTreeMap::new();
        for action in &plan.actions {
            match self.free(action) {
                Some(Reclaimed::Freed { .. }) => {
                    gone.entry(action.store).or_default().insert(action.id);
                    self.count(action, sight, progress);
                }
                Some(Reclaimed::Absent) => {
                    gone.entry(action.store).or_default().insert(action.id);
                }
                Some(Reclaimed::Referenced) => {
                    spared += 1;
                    stays.insert((action.store, action.id));
                    if let Some(pass) = progress.stores.get_mut(action.store) {
                        pass.kept_by_lock += 1;
                    }
                }
                None => {
                    stays.insert((action.store, action.id));
                }
            }
        }
        if self.dry_run {
            return 0;
        }
        for change in plan.models.iter().filter(|change| change.gone) {
            if let Some(store) = sight.snapshot.stores.get(change.store)
                && !stays.iter().any(|(at, _)| *at == change.store)
            {
                self.state
                    .observe(&store.name, Event::Gone { model: change.id });
            }
        }
        for (store, gone) in gone {
            if let Some(tenant) = self.tenants.get_mut(store) {
                tenant.forget(&gone);
            }
        }
        spared
    }

    fn free(&mut self, action: &Action) -> Option<Reclaimed> {
        let tenant = self.tenants.get(action.store)?;
        let object = tenant
            .entry(action.object)
            .filter(|e| e.object.id == action.id)?
            .object;
        if self.dry_run {
            return Some(Reclaimed::Freed { bytes: object.len });
        }
        match tenant.store.reclaim(&object) {
            Ok(reclaimed) => {
                tracing::debug!(
                    store = tenant.config.name, object = %object.id, bytes = object.len,
                    reason = action.reason.name(), ?reclaimed, "reclaim"
                );
                Some(reclaimed)
            }
            Err(error) => {
                // One object that cannot be freed must not keep the others from it.
                tracing::warn!(store = tenant.config.name, %error, "object not freed");
                let store = Some(tenant.config.name.clone());
                self.errors.push((ErrorClass::Reclaim, store));
                None
            }
        }
    }

    fn count(&mut self, action: &Action, sight: &Sight, progress: &mut Progress) {
        let Some(store) = sight.snapshot.stores.get(action.store) else {
            return;
        };
        if !self.dry_run {
            self.state.freed(&store.name, action);
        }
        let bytes = progress.freed_bytes.entry(store.mount).or_default();
        *bytes = bytes.saturating_add(action.bytes);
        if let Some(pass) = progress.stores.get_mut(action.store) {
            let amount = pass.freed.entry(action.reason).or_default();
            amount.objects += 1;
            amount.bytes = amount.bytes.saturating_add(action.bytes);
        }
    }

    /// A plan that was cut short on the way down to a low watermark leaves a mount between the two, where the next plan
    /// would stop.
    fn note_draining(&mut self, plan: &Plan, sight: &Sight) {
        for (mount, (device, _)) in sight.mounts.iter().enumerate() {
            let on_the_way = plan.actions.iter().any(|action| {
                let store = sight.snapshot.stores.get(action.store);
                matches!(action.reason, Reason::OverWatermark | Reason::Cost)
                    && store.is_some_and(|store| store.mount == mount)
            });
            self.draining.insert(*device, plan.cut_short && on_the_way);
        }
    }

    fn usage_of(&self, store: &str, sight: &Sight) -> Option<(usize, Usage)> {
        let stores = &sight.snapshot.stores;
        let index = stores.iter().position(|found| found.name == store)?;
        let usage = self.tenants.get(index)?.store.usage().ok()?;
        Some((index, usage))
    }

    fn room(&self, need: &Need, sight: &Sight, progress: &Progress) -> Room {
        let Some((index, usage)) = self.usage_of(&need.store, sight) else {
            return Room {
                refused: Some(Refused::Unavailable),
                free_bytes: 0,
                freed_bytes: 0,
                missing_bytes: need.bytes,
            };
        };
        let mount = sight
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
        // What this pass freed is out of the catalogue already.
        let used = self.tenants.get(index).map_or(0, Tenant::used_bytes);
        let over_limit = used.saturating_add(need.bytes).saturating_sub(limit);
        let missing_bytes = need.bytes.saturating_sub(usage.free).max(over_limit);
        let files = usage.inodes == 0 || usage.inodes_free >= need.inodes;
        let refused = if missing_bytes == 0 && files {
            None
        } else if self.dry_run {
            Some(Refused::Unavailable)
        } else if need.bytes > usage.capacity.min(limit) {
            Some(Refused::TooLarge)
        } else {
            Some(why_refused(&progress.shortfalls))
        };
        Room {
            refused,
            free_bytes: usage.free,
            freed_bytes: progress.freed_bytes.get(&mount).copied().unwrap_or(0),
            missing_bytes,
        }
    }

    fn collect_records(&mut self, progress: &mut Progress) {
        for (tenant, pass) in self.tenants.iter().zip(&mut progress.stores) {
            match tenant.store.collect_records() {
                Ok(removed) => pass.records_removed += removed,
                Err(error) => {
                    let name = &tenant.config.name;
                    tracing::warn!(store = name, %error, "records not collected");
                    self.errors.push((ErrorClass::Record, Some(name.clone())));
                }
            }
        }
    }

    /// Deletes what was set aside long enough ago, or at once when a load waits for room. What somebody still maps
    /// stays: deleting it would free nothing.
    fn free_quarantined(&mut self, pressed: bool, now_ms: u64) {
        if self.dry_run {
            return;
        }
        let keep_ms = self.config.quarantine().as_millis() as u64;
        let Ok(holders) = Holders::read() else { return };
        for tenant in &self.tenants {
            let Ok(listing) = tenant.store.quarantined() else {
                continue;
            };
            for entry in listing.objects {
                let age_ms = now_ms.saturating_sub(crate::records::millis(entry.changed));
                if holders.of(&entry) > 0 || !(pressed || age_ms >= keep_ms) {
                    continue;
                }
                if let Err(error) = tenant.store.remove_quarantined(&entry.object) {
                    tracing::warn!(store = tenant.config.name, %error, "quarantine");
                    let store = Some(tenant.config.name.clone());
                    self.errors.push((ErrorClass::Reclaim, store));
                }
            }
        }
    }
}

/// Other users of the mount may have what no store gives back; that is in use as well.
fn why_refused(shortfalls: &[Shortfall]) -> Refused {
    let mut requests = shortfalls
        .iter()
        .filter(|missed| missed.goal == Goal::Requests);
    let policy = requests.any(|missed| {
        let kept = missed.kept;
        kept.protected_bytes + kept.young_bytes + kept.guaranteed_bytes > 0
    });
    if policy {
        Refused::Policy
    } else {
        Refused::InUse
    }
}

/// Whether a round leaves something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Done,
    More,
}
