//! A function in the cluster: its instances, and requests that wait at the gateway.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tetris_scaler_core::{LoadPeak, Rate};

use super::instance::{Instance, Job, Phase};
use crate::error::SimulationError;

/// What is known of a function.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Instances that are not gone.
    pub(super) members: BTreeSet<usize>,
    /// Ready instances with room, by the work that waits there.
    by_backlog: BTreeSet<(u64, usize)>,
    listed: BTreeMap<usize, u64>,
    /// Requests for which there is no room.
    pub(super) waiting: VecDeque<Job>,
    /// Requests since the scaler last looked.
    pub(super) arrived: u64,
    pub(super) peak: LoadPeak,
}

impl State {
    pub(super) fn try_new(window_ms: u64) -> Result<Self, SimulationError> {
        Ok(Self {
            members: BTreeSet::new(),
            by_backlog: BTreeSet::new(),
            listed: BTreeMap::new(),
            waiting: VecDeque::new(),
            arrived: 0,
            peak: LoadPeak::try_new(window_ms)?,
        })
    }

    /// The ready instance with room and least work.
    pub(super) fn least_loaded(&self) -> Option<usize> {
        self.by_backlog.first().map(|&(_, at)| at)
    }

    /// Lists `instance` where it belongs now.
    pub(super) fn list(&mut self, at: usize, instance: &Instance) {
        if let Some(before) = self.listed.remove(&at) {
            self.by_backlog.remove(&(before, at));
        }
        if instance.has_room() {
            let backlog_us = instance.backlog_us();
            self.listed.insert(at, backlog_us);
            self.by_backlog.insert((backlog_us, at));
        }
    }

    /// What its instances carry that start or are ready.
    pub(super) fn capacity(&self, instances: &[Instance]) -> Rate {
        let members = self.members.iter().filter_map(|&at| instances.get(at));
        let staying = members.filter(|one| matches!(one.phase, Phase::Starting | Phase::Ready));
        staying.map(|one| one.configuration.rate()).sum()
    }
}
