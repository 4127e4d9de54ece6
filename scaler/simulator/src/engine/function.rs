//! A function in the cluster: its instances, and requests that wait at the gateway.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tetris_scaler_core::{LoadPeak, Rate};

use super::instance::{Instance, Job, Phase};
use super::load_meter::LoadMeter;
use crate::error::SimulationError;
use crate::platform::Platform;

/// State of a function.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Instances that still exist.
    pub(super) members: BTreeSet<usize>,
    /// Ready instances with room, by their backlog.
    by_backlog: BTreeSet<(u64, usize)>,
    listed: BTreeMap<usize, u64>,
    /// Requests without room on an instance.
    pub(super) waiting: VecDeque<Job>,
    /// Load as the operator measures it.
    pub(super) meter: LoadMeter,
    pub(super) peak: LoadPeak,
}

impl State {
    pub(super) fn try_new(platform: &Platform, before: Rate) -> Result<Self, SimulationError> {
        Ok(Self {
            members: BTreeSet::new(),
            by_backlog: BTreeSet::new(),
            listed: BTreeMap::new(),
            waiting: VecDeque::new(),
            meter: LoadMeter::new(platform.scrape_s, platform.load_window_s, before),
            peak: LoadPeak::try_new(platform.window_s.saturating_mul(1_000))?,
        })
    }

    /// Returns the ready instance with room and the smallest backlog.
    pub(super) fn least_loaded(&self) -> Option<usize> {
        self.by_backlog.first().map(|&(_, at)| at)
    }

    /// Updates the place of `instance` in the order.
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

    /// Returns the capacity of its starting and ready instances.
    pub(super) fn capacity(&self, instances: &[Instance]) -> Rate {
        let members = self.members.iter().filter_map(|&at| instances.get(at));
        let staying = members.filter(|one| matches!(one.phase, Phase::Starting | Phase::Ready));
        staying.map(|one| one.configuration.rate()).sum()
    }
}
