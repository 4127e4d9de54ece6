//! Functions without room in a plan.

use std::collections::BTreeMap;

use super::grow::{Member, Planner, room};
use super::single;
use super::started::{Started, Unplaced};
use crate::placement::{PlacementError, Shortage};

impl Planner<'_> {
    /// Reduces the load of a member without room to the least. Returns false if that is no
    /// reduction.
    pub(super) fn content_with_less(&mut self, error: &PlacementError) -> bool {
        let PlacementError::OutOfRoom { model, .. } = error else {
            return false;
        };
        let function = model.parse().ok();
        function.is_some_and(|function| self.settle_for_least(function))
    }

    /// Removes the member that the error names from the plan, or all if it names none, and selects
    /// their instances individually.
    pub(super) fn leave_out(&mut self, error: PlacementError) {
        let (model, unplaced) = self.unplaced(error);
        let named = model.and_then(|model| model.parse().ok());
        let named = named.filter(|function| self.members.contains_key(function));
        let out: Vec<usize> = match named {
            Some(function) => vec![function],
            None => self.members.keys().copied().collect(),
        };
        for function in out {
            let Some(member) = self.members.remove(&function) else {
                continue;
            };
            let counts = self.alone(function, &member);
            let unplaced = Some(unplaced.clone());
            self.started.insert(
                function,
                Started {
                    counts,
                    unplaced,
                    ..Started::default()
                },
            );
        }
    }

    /// Returns the unplaced, and the member that the error names.
    fn unplaced(&self, error: PlacementError) -> (Option<String>, Unplaced) {
        match error {
            PlacementError::NoNodeLargeEnough {
                model,
                node,
                missing,
            } => (Some(model), Unplaced::TooSmall(node, missing)),
            PlacementError::OutOfRoom {
                model,
                node,
                missing,
                ..
            } => (Some(model), Unplaced::Full(node, missing)),
            PlacementError::NoNodes => (None, self.no_nodes()),
            PlacementError::TwoSizes { model, object } => {
                let says = format!("object {object} has another size than in another function");
                (Some(model), Unplaced::Other(says))
            }
            PlacementError::TooManyInstances { model } => {
                let says = "the load takes too many instances for one plan".to_owned();
                (Some(model), Unplaced::Other(says))
            }
            other => (None, Unplaced::Other(other.to_string())),
        }
    }

    /// Reports the needs of the first function's cheapest instance as the shortage, as there is no
    /// node.
    fn no_nodes(&self) -> Unplaced {
        let member = self.members.iter().next();
        let least = member.and_then(|(_, member)| member.usable.cheapest(0));
        let missing = least.map(|(_, member)| Shortage {
            cpu_millis: member.cpu_millis(),
            memory_bytes: member.own_bytes(),
            ..Shortage::default()
        });
        Unplaced::TooSmall(String::new(), missing.unwrap_or_default())
    }

    fn alone(&self, function: usize, member: &Member) -> BTreeMap<usize, u32> {
        let state = self.states.get(function);
        state.map_or_else(BTreeMap::new, |state| {
            let model = &state.view.model;
            single::choose(model, member, room(state))
        })
    }
}
