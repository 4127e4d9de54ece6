//! Passes of the scaler.

use tetris_scaler_core::{Rate, Running, scale_in};

use super::event::What;
use super::instance::{Instance, Phase};
use super::{SECOND_US, Simulation};
use crate::cluster::Loads;
use crate::error::SimulationError;
use crate::policy::{self, Policy, Start};

/// Measurements of a function in one pass.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) load: Rate,
    pub(super) peak: Option<Rate>,
    /// Load for which instances must be started.
    residual: Rate,
}

impl Simulation<'_> {
    pub(super) fn tick(&mut self, clock: &mut dyn FnMut() -> u64) -> Result<(), SimulationError> {
        let looks = self.look()?;
        let needed = looks.iter().any(|look| !look.residual.is_zero());
        let began_us = clock();
        if self.policy == Policy::SharingAware {
            self.decide_all(&looks)?;
        } else {
            self.scale_each(&looks)?;
        }
        if needed {
            self.decision_us.push(clock().saturating_sub(began_us));
        }
        self.cluster.reclaim(self.now_us)?;
        self.sample();
        let next_us = self.now_us + self.scenario.interval_s() * SECOND_US;
        if next_us < self.scenario.seconds * SECOND_US {
            self.events.push(next_us, What::Tick);
        }
        Ok(())
    }

    /// Measures all functions.
    fn look(&mut self) -> Result<Vec<Look>, SimulationError> {
        let mut looks = Vec::new();
        for state in &mut self.states {
            let load = state.load(self.now_us);
            let now_ms = self.now_us / 1_000;
            state.peak.measured(now_ms, load)?;
            let capacity = state.capacity(&self.instances);
            looks.push(Look {
                load,
                peak: state.peak.at(now_ms),
                residual: self.scale_in.residual(load, capacity),
            });
        }
        Ok(looks)
    }

    fn scale_each(&mut self, looks: &[Look]) -> Result<(), SimulationError> {
        for (function, look) in looks.iter().enumerate() {
            if look.residual.is_zero() {
                self.release(function, look);
            } else {
                self.start_for(function, look.residual)?;
            }
        }
        Ok(())
    }

    fn start_for(&mut self, function: usize, residual: Rate) -> Result<(), SimulationError> {
        let Some(what) = self.functions.get(function) else {
            return Ok(());
        };
        let started = policy::scale_out(
            self.policy,
            what,
            residual,
            &mut self.cluster,
            &self.scenario.assumptions.platform,
        )?;
        self.counts.unplaced += started.unplaced;
        for start in started.starts {
            self.launch(function, start);
        }
        Ok(())
    }

    pub(super) fn launch(&mut self, function: usize, start: Start) {
        let Some(of) = self.functions.get(function) else {
            return;
        };
        let Some(&configuration) = of.profile.configurations().get(start.configuration) else {
            return;
        };
        let at = self.instances.len();
        self.instances.push(Instance::new(
            function,
            start.node,
            start.configuration,
            configuration,
            of.slo,
        ));
        if let Some(state) = self.states.get_mut(function) {
            state.members.insert(at);
        }
        if self.now_us == 0 {
            self.ready(at);
            return;
        }
        let platform = &self.scenario.assumptions.platform;
        let Loads {
            disk_bytes,
            cache_bytes,
        } = start.loads;
        let load_us = time_us(disk_bytes, platform.disk_bytes_per_s)
            + time_us(cache_bytes, platform.cache_bytes_per_s);
        let ready_us = self.now_us + platform.start_us + load_us;
        self.events.push(ready_us, What::Ready { instance: at });
        self.counts.starts += 1;
        self.counts.cold_starts += u64::from(disk_bytes > 0);
        self.counts.loaded_bytes += disk_bytes;
        self.counts.copied_bytes += cache_bytes;
    }

    /// Releases instances that the load of a whole window does not need.
    fn release(&mut self, function: usize, look: &Look) {
        let (Some(state), Some(what)) = (self.states.get(function), self.functions.get(function))
        else {
            return;
        };
        let interval_s = self.scenario.interval_s();
        let ready = state
            .members
            .iter()
            .filter_map(|&at| Some((at, self.instances.get(at)?)));
        let ready: Vec<(usize, &Instance)> = ready
            .filter(|(_, member)| member.phase == Phase::Ready)
            .collect();
        let running: Vec<Running> = ready
            .iter()
            .map(|&(at, one)| Running {
                name: format!("{at:012}"),
                configuration: one.configuration,
                load: Rate::from_micro_rps(one.taken.saturating_mul(1_000_000) / interval_s),
            })
            .collect();
        let released = scale_in(&running, what.slo, look.peak, &self.scale_in).release;
        let released: Vec<usize> = released
            .iter()
            .filter_map(|&index| Some(ready.get(index)?.0))
            .collect();
        for at in released {
            self.drain(at);
        }
    }

    pub(super) fn drain(&mut self, at: usize) {
        let Some(instance) = self.instances.get_mut(at) else {
            return;
        };
        instance.phase = Phase::Draining;
        instance.server.flush();
        let idle = instance.server.outstanding() == 0;
        if let Some(state) = self.states.get_mut(instance.function) {
            state.drain(at);
        }
        if idle {
            self.remove(at);
        } else {
            self.work(at);
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        let Some(instance) = self.instances.get_mut(at) else {
            return;
        };
        instance.phase = Phase::Gone;
        if let Some(state) = self.states.get_mut(instance.function) {
            state.remove(at);
        }
        if let Some(function) = self.functions.get(instance.function) {
            let (node, one) = (instance.node, &instance.configuration);
            self.cluster.stop(node, function, one, self.now_us);
        }
    }

    /// Samples the used resources, and resets each instance's count of requests.
    fn sample(&mut self) {
        let members = self.states.iter().flat_map(|state| &state.members);
        let members: Vec<usize> = members.copied().collect();
        for &at in &members {
            if let Some(instance) = self.instances.get_mut(at) {
                instance.taken = 0;
            }
        }
        if self.now_us >= self.scenario.warm_up_s * SECOND_US {
            let used = self.cluster.used();
            self.memory_bytes.push(used.memory_bytes);
            self.cached_bytes.push(self.cluster.cached_bytes());
            self.cpu_millis.push(used.cpu_millis);
            self.instance_counts.push(members.len() as u64);
        }
    }
}

/// Returns the time to move `bytes`, in microseconds.
fn time_us(bytes: u64, bytes_per_s: u64) -> u64 {
    let us = u128::from(bytes) * u128::from(SECOND_US) / u128::from(bytes_per_s.max(1));
    u64::try_from(us).unwrap_or(u64::MAX)
}
