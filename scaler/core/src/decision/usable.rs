//! Usable configurations of a function.

use std::collections::BTreeSet;

use super::{FunctionModel, FunctionOutcome};
use crate::configuration::Configuration;
use crate::gpu::GpuType;
use crate::profile::Profile;
use crate::rate::Rate;
use crate::selection::SloTooTight;

/// Configurations of a model that are allowed and fast enough.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    /// Configurations with their index in the model's profile, ascending.
    pub(super) all: Vec<(usize, Configuration)>,
}

impl Usable {
    pub(super) fn of(model: &FunctionModel) -> Result<Self, FunctionOutcome> {
        let allowed = |at: &usize| model.allowed.is_empty() || model.allowed.contains(at);
        let all = model.profile.configurations().iter().copied().enumerate();
        let all: Vec<(usize, Configuration)> = all.filter(|(at, _)| allowed(at)).collect();
        let least = all
            .iter()
            .map(|(_, configuration)| configuration.least_slo_us())
            .min();
        let least_slo_us = least.ok_or(FunctionOutcome::NoConfiguration)?;
        let slo_us = model.slo.us();
        if least_slo_us > slo_us {
            return Err(FunctionOutcome::SloTooTight(SloTooTight {
                slo_us,
                least_slo_us,
            }));
        }
        let fast = all
            .into_iter()
            .filter(|(_, configuration)| configuration.meets(model.slo));
        Ok(Self {
            all: fast.collect(),
        })
    }

    pub(super) fn rate(&self, configuration: usize) -> Option<Rate> {
        let at = self.all.binary_search_by_key(&configuration, |(at, _)| *at);
        Some(self.all.get(at.ok()?)?.1.rate())
    }

    /// Returns the configuration with the highest throughput, and among equals the one with the
    /// least private memory.
    pub(super) fn fastest(&self) -> Option<(usize, Configuration)> {
        let rank = |(at, one): &&(usize, Configuration)| {
            let small = std::cmp::Reverse((one.private_bytes(), one.cpu_millis(), *at));
            (one.rate(), small)
        };
        self.all.iter().max_by_key(rank).copied()
    }

    /// Returns the configuration with the least cost of private memory and CPU.
    pub(super) fn cheapest(&self, alpha: u64) -> Option<(usize, Configuration)> {
        let cost = |one: &Configuration| {
            let cpu = alpha.saturating_mul(one.cpu_millis());
            one.private_bytes().saturating_add(cpu)
        };
        let rank = |(at, one): &&(usize, Configuration)| (cost(one), one.cpu_millis(), *at);
        self.all.iter().min_by_key(rank).copied()
    }

    /// Returns these configurations as a profile, or `None` if there are none.
    pub(super) fn profile(&self) -> Option<Profile> {
        Profile::try_new(self.all.iter().map(|(_, entry)| *entry).collect()).ok()
    }

    /// Returns the configurations that need no GPU, or one of these types: others cannot start.
    pub(super) fn with_gpus(&self, kinds: &BTreeSet<GpuType>) -> Self {
        let all = self.all.iter().copied();
        let there = |one: &Configuration| one.gpu().is_none_or(|gpu| kinds.contains(&gpu.kind));
        Self {
            all: all.filter(|(_, entry)| there(entry)).collect(),
        }
    }

    /// Returns the types of GPUs that the configurations need.
    pub(super) fn gpu_types(&self) -> impl Iterator<Item = GpuType> {
        self.all
            .iter()
            .filter_map(|(_, entry)| Some(entry.gpu()?.kind))
    }

    /// Returns only one configuration.
    pub(super) fn only(one: (usize, Configuration)) -> Self {
        Self { all: vec![one] }
    }
}
