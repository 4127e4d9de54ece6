//! Candidates of one store, in the eviction order of its policy.

use crate::config::StorePolicy;
use crate::facts::{Fact, facts};
use crate::plan::KeptBytes;
use crate::share::Share;
use crate::snapshot::{ObjectSnapshot, StoreSnapshot};
use crate::space::Space;
use crate::state::StoreState;

/// Candidates that a step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Candidates whose window has ended.
    Expired,
    /// Candidates older than the keep-alive window.
    Ripe,
    /// All candidates, for a waiting load.
    Any,
}

/// A taken candidate.
pub(crate) struct Taken {
    pub(crate) object: u32,
    pub(crate) bytes: u64,
    pub(crate) priority: u64,
    pub(crate) expired: bool,
}

/// Candidates of one store during planning, in the order in which they are taken.
pub(crate) struct Candidates<'a> {
    /// Its index in the snapshot.
    pub(crate) store_index: usize,
    pub(crate) store: &'a StoreSnapshot,
    pub(crate) policy: &'a StorePolicy,
    /// Its share of the mount.
    pub(crate) share: Share,
    now_ms: u64,
    facts: Vec<Fact>,
    /// Candidates: neither held nor protected, expired ones first.
    queue: Vec<u32>,
    expired: usize,
    /// True if the part after the expired ones is sorted. It is sorted at its first use, because
    /// most passes take nothing from it.
    sorted: bool,
    next: usize,
    /// Memory and inodes that the store has when the plan is carried out.
    pub(crate) left: Space,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(
        store_index: usize,
        store: &'a StoreSnapshot,
        policy: &'a StorePolicy,
        share: Share,
        state: Option<&StoreState>,
        now_ms: u64,
    ) -> Self {
        let facts = facts(store, policy, state);
        let mut all = Self {
            store_index,
            store,
            policy,
            share,
            now_ms,
            facts,
            queue: Vec::new(),
            expired: 0,
            sorted: false,
            next: 0,
            left: store.used(),
        };
        let (mut queue, rest): (Vec<u32>, Vec<u32>) = all
            .entries()
            .filter(|(_, object, fact)| !object.held && !fact.protected)
            .map(|(index, _, _)| index)
            .partition(|&index| {
                let fact = all.facts.get(index as usize);
                fact.is_some_and(|fact| fact.expires_ms <= now_ms)
            });
        all.sort(&mut queue);
        all.expired = queue.len();
        queue.extend(rest);
        all.queue = queue;
        all
    }

    /// Returns to the cheapest candidate.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }

    /// Takes the cheapest candidate within reach that occupies at most `most_bytes`. Skipped
    /// candidates are not considered again before a [`rewind`](Self::rewind).
    pub(crate) fn take(&mut self, reach: Reach, most_bytes: u64) -> Option<Taken> {
        loop {
            let expired = self.next < self.expired;
            if !expired {
                if reach == Reach::Expired {
                    return None;
                }
                self.sort_rest();
            }
            let index = *self.queue.get(self.next)?;
            self.next += 1;
            let object = self.store.objects.get(index as usize)?;
            let young = self.young(self.facts.get(index as usize)?);
            let fact = self.facts.get_mut(index as usize)?;
            let bytes = object.allocated_bytes;
            if fact.planned || bytes > most_bytes || (young && reach != Reach::Any) {
                continue;
            }
            fact.planned = true;
            self.left = self.left.beyond(Space { bytes, inodes: 1 });
            return Some(Taken {
                object: index,
                bytes,
                priority: fact.priority(),
                expired,
            });
        }
    }

    /// The part beyond the store's guarantee.
    pub(crate) fn excess(&self) -> Space {
        self.left.beyond(self.share.guaranteed)
    }

    /// Adds the remaining objects, by reason.
    pub(crate) fn add_kept(&self, kept: &mut KeptBytes) {
        for (_, object, fact) in self.entries().filter(|(_, _, fact)| !fact.planned) {
            let part = if object.held {
                &mut kept.held_bytes
            } else if fact.protected {
                &mut kept.protected_bytes
            } else if self.young(fact) {
                &mut kept.young_bytes
            } else {
                &mut kept.guaranteed_bytes
            };
            *part = part.saturating_add(object.allocated_bytes);
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u32, &ObjectSnapshot, &Fact)> {
        let objects = self.store.objects.iter().zip(&self.facts);
        (0..)
            .zip(objects)
            .map(|(index, (object, fact))| (index, object, fact))
    }

    fn young(&self, fact: &Fact) -> bool {
        let ripe_ms = self.policy.keep_alive_secs.saturating_mul(1000);
        self.now_ms.saturating_sub(fact.last_use_ms) < ripe_ms
    }

    fn sort_rest(&mut self) {
        if !self.sorted {
            let mut rest = self.queue.split_off(self.expired);
            self.sort(&mut rest);
            self.queue.append(&mut rest);
            self.sorted = true;
        }
    }

    /// Sorts the lowest priority first: ties go by least recent use, then by identifier.
    fn sort(&self, indices: &mut Vec<u32>) {
        let mut keyed: Vec<(u64, u64, u32)> = Vec::with_capacity(indices.len());
        for &index in &*indices {
            if let Some(fact) = self.facts.get(index as usize) {
                keyed.push((fact.priority(), fact.last_use_ms, index));
            }
        }
        let id = |index: u32| self.store.objects.get(index as usize).map(|found| found.id);
        keyed.sort_unstable_by(|a, b| {
            let by_use = (a.0, a.1).cmp(&(b.0, b.1));
            by_use.then_with(|| id(a.2).cmp(&id(b.2)))
        });
        indices.clear();
        indices.extend(keyed.iter().map(|(_, _, index)| *index));
    }
}
