//! Deployments of configurations.

use std::collections::BTreeMap;

use tetris_scaler_core::Phase;

use super::{Action, Scene};
use crate::operator::deployment::{Wanted, deployment, weights};
use crate::operator::names::deployment_name;
use crate::operator::records::DeploymentRecord;
use crate::operator::template::{Template, template};
use crate::placement::PlacementMode;
use crate::resources::FieldProblem;
use crate::state::Key;

impl Scene<'_> {
    /// Returns the actions on Deployments, growing ones first.
    pub(super) fn deployments(&self) -> Result<Vec<Action>, FieldProblem> {
        let (mut grow, mut shrink) = (Vec::new(), Vec::new());
        for (index, name) in self.prepared.names.iter().enumerate() {
            let replicas = self.decision.replicas.get(&index).copied().unwrap_or(0);
            let present = self.present(name);
            let before = present.map_or(0, |present| present.replicas);
            if let Some(action) = self.deployment(index, name, replicas, present)? {
                let actions = if replicas < before {
                    &mut shrink
                } else {
                    &mut grow
                };
                actions.push(action);
            }
        }
        shrink.extend(self.unknown());
        grow.append(&mut shrink);
        Ok(grow)
    }

    fn deployment(
        &self,
        index: usize,
        name: &str,
        replicas: u32,
        present: Option<&DeploymentRecord>,
    ) -> Result<Option<Action>, FieldProblem> {
        let Some(present) = present else {
            if replicas == 0 {
                return Ok(None);
            }
            let template = template(self.prepared, index, self.observed.mode)?;
            return Ok(Some(self.apply(index, name, replicas, None, &template)));
        };
        if replicas == 0 && present.replicas == 0 {
            return Ok(self.is_empty(present).then(|| delete(present)));
        }
        if replicas == 0 {
            // A change of the template no longer matters.
            return Ok(Some(scale(present, 0)));
        }
        let template = template(self.prepared, index, self.observed.mode)?;
        let is_same = present.template_hash.as_ref() == Some(&template.hash);
        let rollout = &self.prepared.function.rollout;
        if is_same && present.replicas == replicas && present.rollout == *rollout {
            return Ok(None);
        }
        Ok(Some(self.apply(
            index,
            name,
            replicas,
            Some(present),
            &template,
        )))
    }

    fn apply(
        &self,
        index: usize,
        name: &str,
        replicas: u32,
        present: Option<&DeploymentRecord>,
        template: &Template,
    ) -> Action {
        let preferred = self.preferred(index, present, template);
        let wanted = Wanted {
            record: &self.input.record,
            prepared: self.prepared,
            configuration: name,
            template,
            preferred: &preferred,
            planned: &self.planned(index, name),
            replicas,
        };
        let object = deployment(&wanted, present);
        Action::Apply {
            key: self.key(name),
            is_present: present.is_some(),
            object,
        }
    }

    /// Returns the preferred nodes. An existing template keeps its own, unless it changes for
    /// another reason or the Deployment is empty.
    fn preferred(
        &self,
        index: usize,
        present: Option<&DeploymentRecord>,
        template: &Template,
    ) -> BTreeMap<String, u32> {
        let fresh = self.decision.preferred.get(&index);
        let fresh = fresh.map(|preferred| weights(preferred, &self.assembled.hostnames));
        let Some(present) = present else {
            return fresh.unwrap_or_default();
        };
        let rolls = present.template_hash.as_ref() != Some(&template.hash);
        let replaces_nothing = present.replicas == 0 && self.is_empty(present);
        match fresh {
            Some(fresh) if rolls || replaces_nothing => fresh,
            _ => present.preferred.clone(),
        }
    }

    /// Returns the nodes of the instances that stay, and those where the plan starts more.
    fn planned(&self, index: usize, configuration: &str) -> BTreeMap<String, u32> {
        let mut planned: BTreeMap<String, u32> = BTreeMap::new();
        let mut add = |node: usize, count: u32| {
            if let Some(node) = self.assembled.nodes.get(node).filter(|_| count > 0) {
                let planned = planned.entry(node.name.clone()).or_default();
                *planned = planned.saturating_add(count);
            }
        };
        if self.observed.mode == PlacementMode::Gates {
            let assembled = self.assembled;
            for &at in &self.decision.ranking {
                let (Some(source), Some(one)) =
                    (assembled.sources.get(at), assembled.instances.get(at))
                else {
                    continue;
                };
                let stays = one.phase != Phase::Leaving && !self.decision.release.contains(&at);
                if let Some(node) = one
                    .node
                    .filter(|_| stays && source.configuration == configuration)
                {
                    add(node, 1);
                }
            }
            for entry in self.decision.preferred.get(&index).into_iter().flatten() {
                add(entry.node, entry.planned);
            }
        }
        planned
    }

    /// Returns actions on Deployments of configurations outside the profile.
    fn unknown(&self) -> Vec<Action> {
        let ours = self.observed.deployments.values().filter(|deployment| {
            deployment.is_of(&self.input.record)
                && !self.prepared.names.contains(&deployment.configuration)
        });
        let actions = ours.filter_map(|deployment| {
            let replicas = deployment
                .replicas
                .saturating_sub(self.released(&deployment.configuration));
            if replicas < deployment.replicas {
                Some(scale(deployment, replicas))
            } else if self.is_empty(deployment) {
                Some(delete(deployment))
            } else {
                None
            }
        });
        actions.collect()
    }

    fn released(&self, configuration: &str) -> u32 {
        let sources = &self.assembled.sources;
        let release = self.decision.release.iter();
        let of = release.filter(|index| {
            let source = sources.get(**index);
            source.is_some_and(|source| source.configuration == configuration)
        });
        u32::try_from(of.count()).unwrap_or(u32::MAX)
    }

    fn present(&self, configuration: &str) -> Option<&DeploymentRecord> {
        let present = self.observed.deployments.get(&self.key(configuration));
        present.map(AsRef::as_ref).filter(|deployment| {
            deployment.configuration == configuration && deployment.is_of(&self.input.record)
        })
    }

    fn key(&self, configuration: &str) -> Key {
        let function = &self.input.record.key;
        let name = deployment_name(&function.name, configuration);
        Key::new(function.namespace.clone(), name)
    }

    /// Returns true if neither the controller nor the caches have a pod of it.
    fn is_empty(&self, present: &DeploymentRecord) -> bool {
        let pods = self.observed.pods.values();
        let mut instances = pods.filter_map(|pod| Some((pod, pod.instance.as_ref()?)));
        present.replicas == 0
            && present.is_observed
            && present.pods == 0
            && !instances.any(|(pod, instance)| {
                pod.key.namespace == present.key.namespace
                    && instance.function == present.function
                    && instance.configuration == present.configuration
            })
    }
}

fn scale(present: &DeploymentRecord, replicas: u32) -> Action {
    Action::Scale {
        key: present.key.clone(),
        version: present.version.clone(),
        replicas,
    }
}

fn delete(present: &DeploymentRecord) -> Action {
    Action::Delete {
        key: present.key.clone(),
        uid: present.uid.clone(),
        version: present.version.clone(),
    }
}
