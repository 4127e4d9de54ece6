//! Instances of a function by state.

use super::usable::Usable;
use super::{FunctionOutcome, FunctionView, InstanceView, Phase, View};
use crate::rate::Rate;

/// A function as a decision sees it. Instances are indices in the view, sorted by name.
#[derive(Debug)]
pub(super) struct State<'a> {
    pub(super) view: &'a FunctionView,
    /// Its usable configurations, or the reason there are none.
    pub(super) usable: Result<Usable, FunctionOutcome>,
    pub(super) ready: Vec<usize>,
    pub(super) starting: Vec<usize>,
    /// Instances that are not expected to be ready soon.
    pub(super) failing: Vec<usize>,
    /// Instances that stop once their replacements are ready; they may be ready or not.
    pub(super) retiring: Vec<usize>,
    /// Instances with an outdated configuration.
    pub(super) outdated: Vec<usize>,
    pub(super) leaving: Vec<usize>,
    instances: &'a [InstanceView],
}

impl<'a> State<'a> {
    /// Returns the states of all functions.
    pub(super) fn of(view: &View<'a>) -> Vec<Self> {
        let mut states: Vec<Self> = view
            .functions
            .iter()
            .map(|function| Self::new(function, view.instances))
            .collect();
        let mut order: Vec<usize> = (0..view.instances.len()).collect();
        order.sort_by_key(|&at| {
            (
                view.instances
                    .get(at)
                    .map(|instance| instance.name.as_str()),
                at,
            )
        });
        for at in order {
            if let Some(instance) = view.instances.get(at)
                && let Some(state) = states.get_mut(instance.function)
            {
                state.sort_in(at, instance);
            }
        }
        states
    }

    fn new(view: &'a FunctionView, instances: &'a [InstanceView]) -> Self {
        Self {
            usable: Usable::of(&view.model),
            view,
            ready: Vec::new(),
            starting: Vec::new(),
            failing: Vec::new(),
            retiring: Vec::new(),
            outdated: Vec::new(),
            leaving: Vec::new(),
            instances,
        }
    }

    fn sort_in(&mut self, at: usize, one: &InstanceView) {
        let list = if one.phase == Phase::Leaving {
            &mut self.leaving
        } else if self.rate_of(one).is_none() {
            &mut self.outdated
        } else if one.retiring {
            &mut self.retiring
        } else {
            self.list_of(one.phase)
        };
        list.push(at);
    }

    fn list_of(&mut self, phase: Phase) -> &mut Vec<usize> {
        match phase {
            Phase::Ready => &mut self.ready,
            Phase::Failing => &mut self.failing,
            Phase::Starting => &mut self.starting,
            Phase::Leaving => &mut self.leaving,
        }
    }

    fn rate_of(&self, one: &InstanceView) -> Option<Rate> {
        self.usable.as_ref().ok()?.rate(one.configuration?)
    }

    pub(super) fn instance(&self, at: usize) -> Option<&'a InstanceView> {
        self.instances.get(at)
    }

    /// Returns the rate that these instances carry within the objective.
    pub(super) fn rate(&self, of: &[usize]) -> Rate {
        let rates = of.iter().filter_map(|&at| self.rate_of(self.instance(at)?));
        rates.sum()
    }

    /// Returns the rate of the active instances. Failing ones count beyond the needed rate: if the
    /// instances that replace them fail as well, no more are started.
    pub(super) fn capacity(&self) -> Rate {
        let sound = self.rate(&self.ready).plus(self.rate(&self.starting));
        sound.plus(self.rate(&self.failing).minus(self.needed()))
    }

    /// Number of instances that are ready or starting.
    pub(super) fn sound(&self) -> u32 {
        count(self.ready.len().saturating_add(self.starting.len()))
    }

    /// Number of active instances: those that are ready or starting, and failing ones beyond the
    /// minimum.
    pub(super) fn active(&self) -> u32 {
        let beyond = count(self.failing.len()).saturating_sub(self.min());
        self.sound().saturating_add(beyond)
    }

    /// Number of instances, without those that leave.
    pub(super) fn live(&self) -> u32 {
        let others = [&self.failing, &self.retiring, &self.outdated];
        let others: usize = others.into_iter().map(Vec::len).sum();
        self.sound().saturating_add(count(others))
    }

    /// Returns the minimum number of instances.
    pub(super) fn min(&self) -> u32 {
        let policy = self.view.scale_in.config().min_instances;
        policy
            .max(self.view.min_instances)
            .min(self.view.max_instances)
    }

    /// Returns the rate without which instances are started.
    pub(super) fn needed(&self) -> Rate {
        let load = self.view.load.unwrap_or_default();
        self.view.scale_in.residual(load, Rate::ZERO)
    }

    /// Returns the larger of the load and its peak, if both are known.
    pub(super) fn peak(&self) -> Option<Rate> {
        Some(self.view.peak?.max(self.view.load?))
    }

    /// Makes retiring instances ordinary ones again.
    pub(super) fn keep_retiring(&mut self) {
        for at in std::mem::take(&mut self.retiring) {
            if let Some(one) = self.instance(at) {
                self.list_of(one.phase).push(at);
            }
        }
        let name = |at: &usize| {
            self.instances
                .get(*at)
                .map(|instance| instance.name.as_str())
        };
        self.ready.sort_by(|a, b| name(a).cmp(&name(b)));
        self.starting.sort_by(|a, b| name(a).cmp(&name(b)));
        self.failing.sort_by(|a, b| name(a).cmp(&name(b)));
    }

    /// Sorts by load, ascending; then by private memory, descending; then by name. An unknown load
    /// counts as large.
    pub(super) fn least_loaded_first(&self, list: &[usize]) -> Vec<usize> {
        let mut sorted = list.to_vec();
        sorted.sort_by_key(|&at| {
            let at_place = self.instance(at);
            let load = at_place.and_then(|instance| instance.load);
            let own_bytes = at_place
                .and_then(|instance| self.own_bytes(instance))
                .unwrap_or(0);
            let name = at_place.map(|instance| instance.name.as_str());
            (load.is_none(), load, std::cmp::Reverse(own_bytes), name)
        });
        sorted
    }

    fn own_bytes(&self, one: &InstanceView) -> Option<u64> {
        let all = self.view.model.profile.configurations();
        Some(all.get(one.configuration?)?.own_bytes())
    }
}

/// Converts a number to the type of decisions; saturates.
pub(super) fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
