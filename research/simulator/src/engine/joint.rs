//! Scaling of all functions together, by the operator's decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{
    Decision, FunctionDecision, FunctionModel, FunctionView, InstanceView, NodeView, Rate,
    Resources, Settings, View, decide,
};

use super::instance::Phase;
use super::scale::Look;
use super::{SECOND_US, Simulation};
use crate::catalog::Function;
use crate::error::SimulationError;
use crate::policy::{self, Start};

/// State of decisions beside the view of the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Deciding {
    /// Models by function.
    models: Vec<Arc<FunctionModel>>,
    /// Time of the last start or stop of each function, in microseconds.
    changed_us: Vec<u64>,
}

impl Deciding {
    pub(super) fn new(functions: &[Function], alpha_bytes_per_millicore: u64) -> Self {
        let models = functions.iter().map(|function| {
            Arc::new(FunctionModel {
                name: function.name.clone(),
                profile: function.profile.clone(),
                slo: function.slo,
                tensors: function.tensors.clone(),
                store: String::new(),
                allowed: Vec::new(),
                alpha_bytes_per_millicore,
            })
        });
        Self {
            models: models.collect(),
            changed_us: vec![0; functions.len()],
        }
    }
}

impl Simulation<'_> {
    /// Decides for all functions, and executes the decision.
    pub(super) fn decide_all(&mut self, looks: &[Look]) -> Result<(), SimulationError> {
        let functions = self.function_views(looks);
        // `numbers` maps indices in the view to instances.
        let (numbers, instances): (Vec<usize>, Vec<InstanceView>) = self.instance_views().unzip();
        let nodes: Vec<NodeView> = self.node_views();
        let decision = decide(
            &View {
                functions: &functions,
                instances: &instances,
                nodes: &nodes,
                inventory: self.cluster.inventory(),
            },
            &Settings::default(),
        );
        self.carry_out(&decision, &numbers)
    }

    fn function_views(&self, looks: &[Look]) -> Vec<FunctionView> {
        let after_s = self.scenario.assumptions.platform.consolidate_after_s;
        let known = self.deciding.models.iter().zip(&self.deciding.changed_us);
        let views = known.zip(looks).map(|((model, &changed_us), look)| {
            let steady_us = self.now_us.saturating_sub(changed_us);
            FunctionView {
                model: Arc::clone(model),
                load: Some(look.load),
                peak: look.peak,
                min_instances: 0,
                max_instances: u32::MAX,
                scale_in: self.scale_in,
                consolidate: after_s > 0 && steady_us >= after_s.saturating_mul(SECOND_US),
            }
        });
        views.collect()
    }

    fn instance_views(&self) -> impl Iterator<Item = (usize, InstanceView)> {
        let interval_s = self.scenario.interval_s();
        let members = self.states.iter().flat_map(|state| &state.members);
        members.filter_map(move |&at| {
            let instance = self.instances.get(at)?;
            let view = InstanceView {
                name: format!("{at:012}"),
                function: instance.function,
                configuration: Some(instance.index),
                node: Some(instance.node),
                gpu: None,
                phase: instance.phase.seen()?,
                load: Some(Rate::from_micro_rps(
                    instance.taken.saturating_mul(1_000_000) / interval_s,
                )),
                retiring: instance.retiring,
            };
            Some((at, view))
        })
    }

    fn node_views(&self) -> Vec<NodeView> {
        let nodes = self.cluster.nodes().iter();
        let views = nodes.map(|node| NodeView {
            name: node.name.clone(),
            all: node.all,
            free: Resources {
                memory_bytes: node.all.memory_bytes.saturating_sub(node.resident_bytes),
                ..node.all
            },
            tensor_bytes: None,
            stores: BTreeMap::new(),
            gpus: Vec::new(),
            gpus_only: false,
            accepts_new: true,
        });
        views.collect()
    }

    fn carry_out(&mut self, decision: &Decision, numbers: &[usize]) -> Result<(), SimulationError> {
        for (function, entry) in decision.functions.iter().enumerate() {
            let changes = !(entry.start.is_empty() && entry.release.is_empty());
            if let Some(changed_us) = self
                .deciding
                .changed_us
                .get_mut(function)
                .filter(|_| changes)
            {
                *changed_us = self.now_us;
            }
            for &at in &entry.ranking {
                let instance = numbers.get(at).and_then(|&at| self.instances.get_mut(at));
                if let Some(instance) = instance {
                    instance.retiring = entry.retiring.contains(&at);
                }
            }
            let released = entry
                .release
                .iter()
                .filter_map(|&at| numbers.get(at).copied());
            for at in released {
                self.drain(at);
            }
            self.start_all(function, entry)?;
        }
        Ok(())
    }

    /// Starts each instance on its preferred node, or if that has no room, on the next best one.
    fn start_all(
        &mut self,
        function: usize,
        decision: &FunctionDecision,
    ) -> Result<(), SimulationError> {
        for (&configuration, &count) in &decision.start {
            let of = decision.preferred.get(&configuration);
            let preferred = of.map_or(&[][..], Vec::as_slice);
            let planned = preferred
                .iter()
                .flat_map(|entry| std::iter::repeat_n(entry.node, entry.planned as usize));
            let planned: Vec<usize> = planned.collect();
            for number in 0..count as usize {
                let others = preferred.iter().map(|preferred| preferred.node);
                let nodes = planned.get(number).copied().into_iter().chain(others);
                let nodes: Vec<usize> = nodes.collect();
                self.start_on(function, configuration, &nodes)?;
            }
        }
        Ok(())
    }

    /// Starts an instance on the first of `nodes` with room, or on any other node.
    fn start_on(
        &mut self,
        function: usize,
        configuration: usize,
        nodes: &[usize],
    ) -> Result<(), SimulationError> {
        let Some(what) = self.functions.get(function) else {
            return Ok(());
        };
        let Some(one) = what.profile.configurations().get(configuration) else {
            return Ok(());
        };
        let mut fitting = nodes.iter().copied();
        let fits = |&node: &usize| self.cluster.takes(node, what, one).is_some();
        let preferred = fitting.find(fits);
        let node = preferred.or_else(|| policy::best_score(&self.cluster, what, one));
        let Some(node) = node else {
            self.counts.unplaced += 1;
            return Ok(());
        };
        if let Some(loads) = self.cluster.start(node, what, one)? {
            self.launch(
                function,
                Start {
                    node,
                    configuration,
                    loads,
                },
            );
        }
        Ok(())
    }
}

impl Phase {
    /// Returns the phase as decisions see it.
    const fn seen(self) -> Option<tetris_scaler_core::Phase> {
        match self {
            Self::Starting => Some(tetris_scaler_core::Phase::Starting),
            Self::Ready => Some(tetris_scaler_core::Phase::Ready),
            Self::Draining => Some(tetris_scaler_core::Phase::Leaving),
            Self::Gone => None,
        }
    }
}
