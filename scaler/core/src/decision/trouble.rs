//! Functions that find no room in a plan.

use std::collections::BTreeMap;

use super::grow::{Member, Planner, Started, room};
use super::single;
use crate::placement::{PlacementError, Shortage};

/// Why a function is not in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    TooSmall(String, Shortage),
    Full(String, Shortage),
    Other(String),
}

impl Planner<'_> {
    /// Whether a member that finds no room can do with less.
    pub(super) fn content_with_less(&mut self, error: &PlacementError) -> bool {
        let PlacementError::OutOfRoom { model, .. } = error else {
            return false;
        };
        let function = model.parse().ok();
        function.is_some_and(|function| self.settle_for_least(function))
    }

    /// The member that the error names is chosen by itself, or all if it names none.
    pub(super) fn leave_out(&mut self, error: PlacementError) {
        let (model, trouble) = self.trouble(error);
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
            let trouble = Some(trouble.clone());
            self.started.insert(
                function,
                Started {
                    counts,
                    trouble,
                    ..Started::default()
                },
            );
        }
    }

    /// What to say of it, and the member that it names.
    fn trouble(&self, error: PlacementError) -> (Option<String>, Trouble) {
        match error {
            PlacementError::NoNodeLargeEnough {
                model,
                node,
                missing,
            } => (Some(model), Trouble::TooSmall(node, missing)),
            PlacementError::OutOfRoom {
                model,
                node,
                missing,
                ..
            } => (Some(model), Trouble::Full(node, missing)),
            PlacementError::NoNodes => (None, self.no_nodes()),
            PlacementError::TwoSizes { model, object } => {
                let says = format!("object {object} has another size than in another function");
                (Some(model), Trouble::Other(says))
            }
            PlacementError::TooManyInstances { model } => {
                let says = "the load takes too many instances for one plan".to_owned();
                (Some(model), Trouble::Other(says))
            }
            other => (None, Trouble::Other(other.to_string())),
        }
    }

    /// Without a node to look at, what the first function's cheapest instance needs is missing.
    fn no_nodes(&self) -> Trouble {
        let member = self.members.iter().next();
        let least = member.and_then(|(_, member)| member.usable.cheapest(0));
        let missing = least.map(|(_, one)| Shortage {
            cpu_millis: one.cpu_millis(),
            memory_bytes: one.own_bytes(),
            tensor_bytes: 0,
        });
        Trouble::TooSmall(String::new(), missing.unwrap_or_default())
    }

    fn alone(&self, function: usize, member: &Member) -> BTreeMap<usize, u32> {
        let state = self.states.get(function);
        state.map_or_else(BTreeMap::new, |state| {
            let model = &state.view.model;
            single::choose(model, member, room(state))
        })
    }
}
