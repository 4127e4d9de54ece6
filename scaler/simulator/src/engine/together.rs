//! Scaling all functions by one plan.

use std::collections::BTreeMap;

use tetris_scaler_core::{Rate, Resources};

use super::instance::{Instance, Phase};
use super::scale::Look;
use super::{SECOND_US, Simulation};
use crate::error::SimulationError;
use crate::policy::{self, Group, Plan, Start, Want};

/// How often all functions are planned together when nothing has to be started.
const PLAN_US: u64 = 60 * SECOND_US;

impl Simulation<'_> {
    /// Plans all functions, when something has to be started or it is time to.
    pub(super) fn plan_all(&mut self, looks: &[Look], needed: bool) -> Result<(), SimulationError> {
        let since_us = self
            .planned_us
            .map_or(u64::MAX, |then| self.now_us.saturating_sub(then));
        if !needed && since_us < PLAN_US {
            return self.scale_each(looks);
        }
        self.planned_us = Some(self.now_us);
        let loads: Vec<Rate> = looks.iter().map(|look| self.to_carry(look)).collect();
        let running = self.running();
        let plan = policy::plan(
            &Want {
                functions: &self.functions,
                loads: &loads,
                running: &running,
                leaving: &self.leaving(),
            },
            &self.cluster,
        );
        match plan {
            Some(plan) => self.follow(&plan, &running, looks),
            None => self.scale_each(looks),
        }
    }

    /// The load with the headroom of scaling out; more while the window is not over.
    fn to_carry(&self, look: &Look) -> Rate {
        let out = self.scale_in.residual(look.load, Rate::ZERO);
        let kept = look.peak.map_or(look.capacity, |peak| {
            self.scale_in.needed(peak).min(look.capacity)
        });
        out.max(kept)
    }

    /// Starts what the plan has more. Of functions for which nothing is started, stops what it has less: what
    /// takes another's place runs before that goes.
    fn follow(
        &mut self,
        plan: &Plan,
        running: &BTreeMap<Group, u32>,
        looks: &[Look],
    ) -> Result<(), SimulationError> {
        let mut grows = vec![false; self.functions.len()];
        for (group, &count) in plan {
            let more = count.saturating_sub(running.get(group).copied().unwrap_or(0));
            for _ in 0..more {
                if let Some(grows) = grows.get_mut(group.function) {
                    *grows = true;
                }
                let look = looks.get(group.function);
                let pressing = look.is_none_or(|look| look.capacity < look.load);
                self.start_at(*group, pressing)?;
            }
        }
        for (group, &count) in running {
            let less = count.saturating_sub(plan.get(group).copied().unwrap_or(0));
            let grows = grows.get(group.function).copied().unwrap_or(true);
            if less > 0 && !grows {
                self.drain_some(group, less as usize);
            }
        }
        Ok(())
    }

    /// Where the plan says. While what the plan ends there still has its room, elsewhere if it is `pressing`, and
    /// not yet if what runs carries the load and only headroom is missing.
    fn start_at(&mut self, group: Group, pressing: bool) -> Result<(), SimulationError> {
        let Some(what) = self.functions.get(group.function) else {
            return Ok(());
        };
        let all = what.profile.configurations();
        let Some(one) = all.get(group.configuration) else {
            return Ok(());
        };
        let Group {
            node,
            configuration,
            ..
        } = group;
        let rate = one.rate();
        match self.cluster.start(node, &what.tensors, one)? {
            Some(loads_bytes) => {
                self.launch(
                    group.function,
                    Start {
                        node,
                        configuration,
                        loads_bytes,
                    },
                );
                Ok(())
            }
            None if pressing => self.start_for(group.function, rate),
            None => Ok(()),
        }
    }

    /// Instances that stay unless someone says otherwise.
    fn running(&self) -> BTreeMap<Group, u32> {
        let mut running = BTreeMap::new();
        for instance in &self.instances {
            if matches!(instance.phase, Phase::Starting | Phase::Ready) {
                *running.entry(instance.group()).or_insert(0) += 1;
            }
        }
        running
    }

    fn leaving(&self) -> BTreeMap<usize, Resources> {
        let mut leaving: BTreeMap<usize, Resources> = BTreeMap::new();
        for instance in &self.instances {
            if instance.phase == Phase::Draining {
                let sum = leaving.entry(instance.node).or_default();
                sum.cpu_millis += instance.configuration.cpu_millis();
                sum.memory_bytes += instance.configuration.own_bytes();
            }
        }
        leaving
    }

    /// Drains `count` ready instances of a group, those with least work.
    fn drain_some(&mut self, group: &Group, count: usize) {
        let all = self.instances.iter().enumerate();
        let ready = all.filter(|(_, one)| one.phase == Phase::Ready && one.group() == *group);
        let mut ready: Vec<(u64, usize)> = ready.map(|(at, one)| (one.outstanding(), at)).collect();
        ready.sort_unstable();
        for (_, at) in ready.into_iter().take(count) {
            self.drain(at);
        }
    }
}

impl Instance {
    const fn group(&self) -> Group {
        Group {
            function: self.function,
            node: self.node,
            configuration: self.index,
        }
    }
}
