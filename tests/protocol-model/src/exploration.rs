//! Exploration of a model's states: actions, transitions, and the check of every invariant.

use stateright::{Checker, Model as _, Property};

use crate::files::Content;
use crate::invariants::{self, Invariant};
use crate::model::Model;
use crate::operation::State;
use crate::process::{Doing, Passed, Process, Role};
use crate::step::Protocol;

/// An action in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A process begins a protocol for an object.
    Begin(usize, Protocol, u8),
    /// A process takes its next step, with a choice if there is one.
    Step(usize, u8),
    /// A process unmaps its object.
    Release(usize),
    /// A process is killed.
    Crash(usize),
    /// An object is damaged.
    Damage(u8),
}

/// Result of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckResult {
    /// Number of different states.
    pub states: usize,
    /// Number of actions in the longest run.
    pub depth: usize,
    /// Broken invariants, each with the actions that lead to it.
    pub broken: Vec<(&'static str, Vec<Action>)>,
}

impl Model {
    /// Checks every state; with [`Model::only`], stops when that invariant is broken.
    pub fn check(&self) -> CheckResult {
        // One thread finds a shortest run to a broken invariant; two are faster if there is none.
        let threads = if self.only.is_some() { 1 } else { 2 };
        let checker = self.clone().checker().threads(threads).spawn_bfs().join();
        let discoveries = checker.discoveries().into_iter();
        let broken = discoveries.map(|(name, path)| (name, path.into_actions()));
        CheckResult {
            states: checker.unique_state_count(),
            depth: checker.max_depth(),
            broken: broken.collect(),
        }
    }

    fn begin(&self, me: usize, process: &Process, actions: &mut Vec<Action>) {
        let protocols: &[Protocol] = match process.role {
            // The agent looks up an object that it knows, and stages one that it does not.
            Role::Loader => &[Protocol::Map, Protocol::Publish],
            Role::Reclaimer => &[Protocol::Reclaim],
            Role::Scrubber => &[Protocol::Quarantine],
        };
        for object in 0..self.rules.objects {
            actions.extend(
                protocols
                    .iter()
                    .map(|&protocol| Action::Begin(me, protocol, object)),
            );
        }
    }
}

impl stateright::Model for Model {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (me, process) in state.processes.iter().enumerate() {
            let has_nothing_open = process.descriptions().next().is_none() && !process.alone;
            match process.doing {
                Doing::Nothing if process.left > 0 && has_nothing_open => {
                    self.begin(me, process, actions);
                }
                Doing::Nothing => {}
                Doing::At(..) => {
                    let choices = state.choices(&self.rules, me);
                    actions.extend((0..choices).map(|choice| Action::Step(me, choice)));
                }
                Doing::Holds => actions.push(Action::Release(me)),
            }
            if state.crashes > 0 && process.doing != Doing::Nothing {
                actions.push(Action::Crash(me));
            }
        }
        let named = (0u8..)
            .zip(state.files.objects)
            .filter(|(_, inode)| inode.is_some());
        if state.faults > 0 {
            actions.extend(named.map(|(object, _)| Action::Damage(object)));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let rules = &self.rules;
        Some(match action {
            Action::Begin(me, protocol, object) => state.begin(rules, me, object, protocol),
            Action::Step(me, choice) => state.step(rules, me, choice, &mut Passed::new())?,
            Action::Release(me) => state.release(rules, me),
            Action::Crash(me) => state.crash(rules, me),
            Action::Damage(object) => {
                let mut state = state.clone();
                let inode = state.files.lookup(object)?;
                state.files.inode_mut(inode).content = Content::Damaged;
                state.faults -= 1;
                state
            }
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = invariants::ALL.into_iter();
        all.filter(|invariant| self.only.is_none_or(|only| only == invariant.name))
            .map(|Invariant { name, holds }| Property::always(name, holds))
            .collect()
    }
}
