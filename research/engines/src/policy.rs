//! Seam of policies, and the gateway's.

use std::collections::HashMap;

use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::engines::{
    Action, EngineGroup, EngineId, EngineRules, Finding, GroupRules,
};

/// An action of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A request begins at its engine.
    Start(usize),
    /// A request is refused, or cut off.
    Refuse(usize),
    /// An engine falls asleep.
    Sleep(usize),
    /// An engine wakes up.
    Wake(usize),
}

/// A policy. Engines have the numbers of their models; all sleep at first.
pub trait Policy {
    /// Takes a request. Returns false if it is refused.
    fn offer(&mut self, now_us: u64, model: usize, request: usize) -> bool;
    /// A request has ended, or its client has left.
    fn ended(&mut self, now_us: u64, request: usize);
    /// An engine sleeps now.
    fn slept(&mut self, now_us: u64, model: usize);
    /// An engine is awake now.
    fn woke(&mut self, now_us: u64, model: usize);
    /// Due actions.
    fn act(&mut self, now_us: u64) -> Vec<Act>;
    /// Time of the next action without an event before it.
    fn next_us(&self, now_us: u64) -> Option<u64>;
}

/// The gateway's state machine.
#[derive(Debug)]
pub struct Residency {
    group: EngineGroup,
    ids: HashMap<usize, RequestId>,
    requests: HashMap<RequestId, usize>,
}

impl Residency {
    /// A group of so many engines that take one unit of the capacity each.
    pub fn new(models: usize, rules: GroupRules) -> Self {
        let engine = EngineRules {
            awake: 1,
            asleep: 0,
            requests: 256,
        };
        let mut group = EngineGroup::new(rules, vec![engine; models]);
        for engine in (0..models).map(EngineId) {
            if let Some(question) = group.question(engine) {
                group.learned(0, engine, question, Finding::Asleep);
            }
        }
        Self {
            group,
            ids: HashMap::new(),
            requests: HashMap::new(),
        }
    }
}

impl Policy for Residency {
    fn offer(&mut self, now_us: u64, model: usize, request: usize) -> bool {
        let Ok(id) = self.group.offer(now_us, EngineId(model)) else {
            return false;
        };
        self.ids.insert(request, id);
        self.requests.insert(id, request);
        true
    }

    fn ended(&mut self, now_us: u64, request: usize) {
        if let Some(id) = self.ids.remove(&request) {
            self.requests.remove(&id);
            self.group.complete(now_us, id);
        }
    }

    fn slept(&mut self, now_us: u64, model: usize) {
        self.group.slept(now_us, EngineId(model), true);
    }

    fn woke(&mut self, now_us: u64, model: usize) {
        self.group.woke(now_us, EngineId(model), true);
    }

    fn act(&mut self, now_us: u64) -> Vec<Act> {
        let actions = self.group.pump(now_us).into_iter();
        let acts = actions.filter_map(|action| match action {
            Action::Dispatch { request, .. } => {
                self.requests.get(&request).copied().map(Act::Start)
            }
            Action::Refuse { request, .. } | Action::Cut { request } => {
                self.requests.get(&request).copied().map(Act::Refuse)
            }
            Action::Sleep(engine) => Some(Act::Sleep(engine.0)),
            Action::Wake(engine) => Some(Act::Wake(engine.0)),
        });
        acts.collect()
    }

    fn next_us(&self, now_us: u64) -> Option<u64> {
        self.group.next_us(now_us)
    }
}
