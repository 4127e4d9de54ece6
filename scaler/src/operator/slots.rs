//! Slots: planned nodes of Deployments that lack an instance.

use std::collections::BTreeMap;

use super::observed::Observed;
use super::records::PodRecord;
use super::view::{Assembled, Source};

impl Assembled {
    /// Gives a Deployment's planned nodes to its instances without a node, from the index `first` on:
    /// pods before replicas without a pod. A planned node without its instance is a slot. Pods of
    /// an older template are to leave, and keep none; slots that they do not stand in come first.
    pub(super) fn fill_slots(
        &mut self,
        nodes: &BTreeMap<&str, usize>,
        planned: &BTreeMap<String, u32>,
        first: usize,
    ) {
        let mut slots: BTreeMap<usize, u32> = BTreeMap::new();
        for (name, count) in planned {
            if let Some(node) = nodes.get(name.as_str()) {
                slots.insert(*node, *count);
            }
        }
        let sources = self.sources.get(first..).unwrap_or_default();
        let newest = sources
            .iter()
            .filter_map(|source| source.template.as_ref())
            .max();
        let newest = newest.map(|(_, template)| template.clone());
        let instances = self.instances.iter_mut().zip(&self.sources).skip(first);
        let mut waiting = Vec::new();
        let mut older: BTreeMap<usize, u32> = BTreeMap::new();
        for (instance, source) in instances {
            let template = source.template.as_ref().map(|(_, template)| template);
            if source.is_leaving {
                continue;
            }
            if template.is_some() && template != newest.as_ref() {
                if let Some(node) = instance.node {
                    *older.entry(node).or_default() += 1;
                }
                continue;
            }
            match instance.node {
                Some(node) => {
                    if let Some(count) = slots.get_mut(&node) {
                        *count = count.saturating_sub(1);
                    }
                }
                None if source.takes_slot => waiting.push(instance),
                None => {}
            }
        }
        let (mut vacant, mut occupied) = (Vec::new(), Vec::new());
        for (node, count) in slots {
            let old = older.get(&node).copied().unwrap_or(0).min(count);
            vacant.extend((old..count).map(|_| node));
            occupied.extend((0..old).map(|_| node));
        }
        for (instance, node) in waiting.into_iter().zip(vacant.into_iter().chain(occupied)) {
            instance.node = Some(node);
        }
    }

    /// Returns true if a pod that is to leave is on the node: of the same function as the instance
    /// `at`, and being deleted or of another template.
    pub fn has_leaving(&self, at: usize, node: usize) -> bool {
        let (Some(one), Some(own)) = (self.instances.get(at), self.sources.get(at)) else {
            return false;
        };
        let template = |source: &Source| source.template.as_ref().map(|(_, it)| it.clone());
        let mut others = self.instances.iter().zip(&self.sources);
        others.any(|(other, source)| {
            let is_old = source.configuration == own.configuration
                && template(source).is_some()
                && template(source) != template(own);
            other.function == one.function
                && other.node == Some(node)
                && (source.is_leaving || is_old)
        })
    }

    /// Returns true if a pod of the same function as the instance `at` that is being deleted is on the
    /// node.
    pub fn has_deleted(&self, at: usize, node: usize) -> bool {
        let function = self.instances.get(at).map(|instance| instance.function);
        let mut others = self.instances.iter().zip(&self.sources);
        others.any(|(other, source)| {
            Some(other.function) == function && other.node == Some(node) && source.is_leaving
        })
    }

    /// Returns the instances whose pods wait behind a gate. Their node, if they have one, is that
    /// of the plan.
    pub fn gated<'a>(
        &'a self,
        observed: &'a Observed,
    ) -> impl Iterator<Item = (usize, &'a PodRecord)> {
        let sources = self.sources.iter().enumerate();
        sources.filter_map(|(at, source)| {
            let pod = observed.pods.get(source.pod.as_ref()?)?;
            let gate = pod.instance.as_ref()?.gate.as_ref();
            gate.map(|_| (at, pod.as_ref()))
        })
    }
}
