//! Room for loads that wait.

use tetris_reclaimer_core::{Goal, RoomRequest, Shortfall};
use tetris_store_layout::{RecordUse, Usage};

use super::Node;
use super::look::Sight;
use super::pass::Progress;
use crate::tenant::Tenant;

/// A load that waits for room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Need {
    /// The store's name.
    pub store: String,
    /// Bytes that have to be free on its mount.
    pub bytes: u64,
    /// Files that it has to be possible to make there.
    pub inodes: u64,
    /// Records that there has to be place for among those of the store; what they take is part of `bytes` only where the store has a limit.
    pub records: RecordUse,
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

impl Node {
    /// What is asked of the planner. It counts bytes: when files are what is missing, it is asked for a little more
    /// than is free, so that some objects go.
    pub(super) fn requests(&self, needs: &[Need], sight: &Sight) -> Vec<RoomRequest> {
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

    fn usage_of(&self, store: &str, sight: &Sight) -> Option<(usize, Usage)> {
        let stores = &sight.snapshot.stores;
        let index = stores.iter().position(|found| found.name == store)?;
        let usage = self.tenants.get(index)?.store.usage().ok()?;
        Some((index, usage))
    }

    /// What came of a need, at the end of a pass. Where there was room as the pass was planned, others have taken it since, as they may after
    /// any answer: a "no" would be final, and so it is told to try again.
    pub(super) fn answer(&self, need: &Need, sight: &Sight, progress: &Progress) -> Room {
        let mut room = self.room(need, sight, progress);
        let within_limit = room.missing_bytes <= need.bytes.saturating_sub(room.free_bytes);
        let planned = !progress
            .shortfalls
            .iter()
            .any(|missed| missed.goal == Goal::Requests);
        if planned && within_limit && room.refused == Some(Refused::InUse) {
            room.refused = None;
        }
        room
    }

    /// What came of a need.
    pub(super) fn room(&self, need: &Need, sight: &Sight, progress: &Progress) -> Room {
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
        let record_limits = self.config.policy.of(&need.store).record_limits();
        // What this pass freed is out of the catalog already.
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
            Some(Refused::Unavailable)
        } else if need.bytes > usage.capacity.min(limit) || !need.records.is_within(record_limits) {
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
