//! One pass: observe, plan, free, and again where the plan was stale.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tetris_reclaimer_core::{Action, Event, Plan, Reason, plan};
use tetris_store_layout::{ObjectId, Reclaimed, Refresh, StoreError};
use tracing::field::Empty;

use super::held::{IN_TURN, Question, Turn};
use super::observation::Observation;
use super::progress::Progress;
use super::{PassResult, Reclaimer};
use crate::report::{ErrorClass, PassReport, Trigger};
use crate::room::RoomNeed;

/// Time after which a pass lists everything, whatever the time stamps say: the safety net.
const FULL_MS: u64 = 10 * 60 * 1000;
/// Most objects freed before the next observation, so that a load that began meanwhile is noticed.
const MAX_ACTIONS: usize = 10_000;
/// Most rounds of a pass. Another round follows when an object of the plan turned out to be held, or
/// when the plan was cut short.
const MAX_ROUNDS: u32 = 64;

impl Reclaimer {
    /// Makes a pass. `needs` are served before anything else.
    pub fn pass(&mut self, trigger: Trigger, needs: &[RoomNeed], now_ms: u64) -> PassResult {
        let span = tracing::debug_span!(
            "pass",
            trigger = trigger.name(),
            needs = needs.len(),
            bytes_freed = Empty
        );
        let _entered = span.enter();
        let began = Instant::now();
        self.passes += 1;
        self.now_ms = now_ms;
        self.open_missing();
        let full = now_ms.saturating_sub(self.full_ms) >= FULL_MS;
        let mut how = Refresh::Changes;
        if full {
            self.full_ms = now_ms;
            how = Refresh::Everything;
        }
        let mut progress = Progress::new(&self.tenants);
        // A waiting load does not wait for a mere report.
        if needs.is_empty() {
            self.see_pages(full);
        }
        self.free_quarantined(!needs.is_empty(), now_ms);
        let mut seen = self.observe(how, Question::Begin, now_ms, &mut progress);
        if self.trim_records(&seen, needs, &mut progress) {
            seen = self.observe(Refresh::Changes, Question::New, now_ms, &mut progress);
        }
        self.rounds(&mut seen, needs, now_ms, &mut progress);
        if self.release_references(&seen, &progress) {
            seen = self.observe(Refresh::Changes, Question::Held, now_ms, &mut progress);
            self.rounds(&mut seen, needs, now_ms, &mut progress);
        }
        let freed_bytes: u64 = progress.freed_bytes.values().sum();
        span.record("bytes_freed", freed_bytes);
        let freed = freed_bytes > 0;
        if !self.dry_run {
            self.collect_records(full, &mut progress);
        }
        if freed && !self.dry_run {
            seen = self.observe(Refresh::Changes, Question::New, now_ms, &mut progress);
        }
        for tenant in &mut self.tenants {
            tenant.end_reading();
        }
        PassResult {
            rooms: self.answers(needs, &seen, &progress),
            status: self.status(&seen, &progress.shortfalls, now_ms),
            report: PassReport {
                trigger,
                duration: began.elapsed(),
                stores: progress.stores,
                errors: std::mem::take(&mut self.errors),
            },
        }
    }

    /// Plans and frees, until nothing is left to do.
    fn rounds(
        &mut self,
        seen: &mut Observation,
        needs: &[RoomNeed],
        now_ms: u64,
        progress: &mut Progress,
    ) {
        // Where a plan met held objects, answers are old: others are asked before the next one.
        let mut more = IN_TURN;
        for _ in 0..MAX_ROUNDS {
            let question = match self.round(seen, needs, now_ms, progress) {
                Round::Done => break,
                Round::More => Question::New,
                Round::Spared => {
                    let question = Question::More(more);
                    more = more.saturating_mul(2);
                    question
                }
            };
            *seen = self.observe(Refresh::Changes, question, now_ms, progress);
        }
    }

    /// Plans once and carries it out.
    fn round(
        &mut self,
        seen: &mut Observation,
        needs: &[RoomNeed],
        now_ms: u64,
        progress: &mut Progress,
    ) -> Round {
        let requests = self.requests(needs, seen);
        seen.snapshot.requests = requests;
        let most = if self.dry_run {
            usize::MAX
        } else {
            MAX_ACTIONS
        };
        let plan = match plan(
            &seen.snapshot,
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
        let spared = tracing::debug_span!("free", objects = plan.actions.len())
            .in_scope(|| self.carry_out(&plan, seen, now_ms, progress));
        self.note_draining(&plan, seen);
        let unmet =
            |need: &RoomNeed| self.is_unmet(need, seen, progress) && !plan.actions.is_empty();
        if self.dry_run {
            // Another plan would count the same objects again.
            return Round::Done;
        }
        if spared > 0 {
            return Round::Spared;
        }
        if plan.cut_short || needs.iter().any(unmet) {
            return Round::More;
        }
        Round::Done
    }

    /// Carries the plan out. Returns the number of objects that turned out to be held. They count as held
    /// for the rest of the pass, and for their back-off.
    fn carry_out(
        &mut self,
        plan: &Plan,
        seen: &Observation,
        now_ms: u64,
        progress: &mut Progress,
    ) -> u64 {
        let turn = Turn {
            pass: self.passes,
            most: 0,
            now_ms,
        };
        let mut spared = 0;
        let mut stays: BTreeSet<(usize, ObjectId)> = BTreeSet::new();
        let mut gone: BTreeMap<usize, BTreeSet<ObjectId>> = BTreeMap::new();
        for action in &plan.actions {
            match self.free(action) {
                Some(Reclaimed::Freed { .. }) => {
                    gone.entry(action.store).or_default().insert(action.id);
                    self.count(action, seen, progress);
                }
                Some(Reclaimed::Absent) => {
                    gone.entry(action.store).or_default().insert(action.id);
                }
                Some(Reclaimed::Referenced) => {
                    spared += 1;
                    stays.insert((action.store, action.id));
                    if let Some(tenant) = self.tenants.get_mut(action.store) {
                        tenant.spare(action.object, &turn);
                    }
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
            return spared;
        }
        for change in plan.models.iter().filter(|change| change.gone) {
            if let Some(store) = seen.snapshot.stores.get(change.store)
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
        let reclaimed = if self.dry_run {
            // As reclaim would decide.
            let looked = tenant.store.is_held(&object).map_err(StoreError::from);
            looked.map(|is_held| {
                if is_held {
                    Reclaimed::Referenced
                } else {
                    Reclaimed::Freed { bytes: object.len }
                }
            })
        } else {
            tenant.store.reclaim(&object)
        };
        match reclaimed {
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

    fn count(&mut self, action: &Action, seen: &Observation, progress: &mut Progress) {
        let Some(store) = seen.snapshot.stores.get(action.store) else {
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

    /// A plan that was cut short on the way down to a low watermark leaves a mount between the two,
    /// where the next plan would stop.
    fn note_draining(&mut self, plan: &Plan, seen: &Observation) {
        for (mount, (device, _)) in seen.mounts.iter().enumerate() {
            let on_the_way = plan.actions.iter().any(|action| {
                let store = seen.snapshot.stores.get(action.store);
                matches!(action.reason, Reason::OverWatermark | Reason::Cost)
                    && store.is_some_and(|store| store.mount == mount)
            });
            self.draining.insert(*device, plan.cut_short && on_the_way);
        }
    }
}

/// Result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Nothing is left to do.
    Done,
    /// The plan was cut short, or a load still misses room.
    More,
    /// Objects of the plan turned out to be held.
    Spared,
}
