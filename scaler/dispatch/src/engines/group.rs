//! A group of engines in one device's memory.

use std::collections::BTreeMap;

use super::action::{Action, Finding};
use super::engine::{Engine, EngineState};
use super::id::EngineId;
use super::plan::{Plan, is_wanted, plan};
use super::rejection::EngineRejection;
use super::rules::{EngineRules, GroupRules};
use crate::id::RequestId;

/// Engines of one device, with the requests that wait for them and those that they have.
#[derive(Debug)]
pub struct EngineGroup {
    rules: GroupRules,
    engines: Vec<Engine>,
    requests: BTreeMap<RequestId, Request>,
    /// Number of the next request: smaller ones arrived before.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    engine: usize,
    arrived_us: u64,
}

impl EngineGroup {
    /// Creates a group of engines in unknown states.
    pub fn new(rules: GroupRules, engines: impl IntoIterator<Item = EngineRules>) -> Self {
        Self {
            rules,
            engines: engines.into_iter().map(Engine::new).collect(),
            requests: BTreeMap::new(),
            next: 0,
        }
    }

    /// Takes a request for an engine. It waits until an action concerns it.
    ///
    /// # Errors
    ///
    /// The reason it cannot wait.
    pub fn offer(&mut self, now_us: u64, engine: EngineId) -> Result<RequestId, EngineRejection> {
        let waiting = self.waiting();
        let Some(of) = self.engines.get_mut(engine.0) else {
            return Err(EngineRejection::Unreachable);
        };
        match of.state {
            EngineState::Gone | EngineState::Silent { .. } => {
                return Err(EngineRejection::Unreachable);
            }
            EngineState::NoPaths => return Err(EngineRejection::NoPaths),
            EngineState::Asleep | EngineState::Unknown if now_us < of.no_wake_before_us => {
                let retry_us = of.no_wake_before_us.saturating_sub(now_us);
                return Err(EngineRejection::WakeFailed { retry_us });
            }
            _ => {}
        }
        let waits = !of.has_room() || !of.waiting.is_empty();
        if waits && waiting >= self.rules.queue {
            return Err(EngineRejection::Full { waiting });
        }
        let id = RequestId(self.next);
        self.next = self.next.saturating_add(1);
        of.waiting.insert(id);
        let request = Request {
            engine: engine.0,
            arrived_us: now_us,
        };
        self.requests.insert(id, request);
        Ok(id)
    }

    /// Forgets a request: it has ended, or its client has left.
    pub fn complete(&mut self, now_us: u64, request: RequestId) {
        let Some(of) = self.requests.remove(&request) else {
            return;
        };
        if let Some(engine) = self.engines.get_mut(of.engine)
            && !engine.waiting.remove(&request)
            && engine.running.remove(&request)
        {
            engine.used_us = now_us;
        }
    }

    /// Lets a dispatched request wait again: nothing of it was sent, since its engine could not be reached.
    pub fn give_back(&mut self, request: RequestId) {
        let Some(of) = self.requests.get(&request) else {
            return;
        };
        if let Some(engine) = self.engines.get_mut(of.engine)
            && engine.running.remove(&request)
        {
            engine.waiting.insert(request);
            if engine.state == EngineState::Awake {
                engine.enter(EngineState::Unknown);
            }
        }
    }

    /// Begins a question to an engine for its state. `None` while an order is under way.
    pub fn question(&self, engine: EngineId) -> Option<u64> {
        let of = self.engines.get(engine.0)?;
        let is_ordered = matches!(of.state, EngineState::FallingAsleep | EngineState::Waking);
        (!is_ordered).then_some(of.epoch)
    }

    /// Takes the answer to a [`question`](Self::question). It does not count if the state has changed since.
    pub fn learned(&mut self, now_us: u64, engine: EngineId, question: u64, finding: Finding) {
        if let Some(of) = self.engines.get_mut(engine.0)
            && of.epoch == question
        {
            of.learn(now_us, finding);
        }
    }

    /// Takes the result of [`Action::Sleep`].
    pub fn slept(&mut self, now_us: u64, engine: EngineId, succeeded: bool) {
        self.ordered(now_us, engine, EngineState::FallingAsleep, succeeded);
    }

    /// Takes the result of [`Action::Wake`].
    pub fn woke(&mut self, now_us: u64, engine: EngineId, succeeded: bool) {
        self.ordered(now_us, engine, EngineState::Waking, succeeded);
    }

    fn ordered(&mut self, now_us: u64, engine: EngineId, during: EngineState, succeeded: bool) {
        if let Some(of) = self.engines.get_mut(engine.0)
            && of.state == during
        {
            of.ordered(now_us, succeeded);
        }
    }

    /// Decides, and returns the due actions.
    pub fn pump(&mut self, now_us: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        self.refuse(now_us, &mut actions);
        // An engine that has just woken gets its requests before it may have to make room again.
        self.dispatch(now_us, &mut actions);
        let plan = plan(&self.rules, &self.engines, now_us, |engine| {
            oldest(&self.requests, engine)
        });
        self.carry_out(&plan, now_us, &mut actions);
        self.dispatch(now_us, &mut actions);
        actions
    }

    /// Refuses requests that wait for engines that cannot have them.
    fn refuse(&mut self, now_us: u64, actions: &mut Vec<Action>) {
        for engine in &mut self.engines {
            let rejection = match engine.state {
                EngineState::Gone | EngineState::Silent { .. } => EngineRejection::Unreachable,
                EngineState::NoPaths => EngineRejection::NoPaths,
                _ if engine.wake_failed => EngineRejection::WakeFailed {
                    retry_us: engine.no_wake_before_us.saturating_sub(now_us),
                },
                _ => continue,
            };
            engine.wake_failed = false;
            refuse_all(&mut self.requests, engine, rejection, actions);
        }
    }

    fn dispatch(&mut self, now_us: u64, actions: &mut Vec<Action>) {
        for (place, engine) in self.engines.iter_mut().enumerate() {
            while engine.has_room()
                && let Some(request) = engine.waiting.pop_first()
            {
                engine.running.insert(request);
                engine.used_us = now_us;
                let arrived = self
                    .requests
                    .get(&request)
                    .map_or(now_us, |of| of.arrived_us);
                actions.push(Action::Dispatch {
                    request,
                    engine: EngineId(place),
                    waited_us: now_us.saturating_sub(arrived),
                });
            }
        }
    }

    fn carry_out(&mut self, plan: &Plan, now_us: u64, actions: &mut Vec<Action>) {
        for (place, engine) in self.engines.iter_mut().enumerate() {
            let id = EngineId(place);
            if plan.hopeless.contains(&place) {
                refuse_all(&mut self.requests, engine, EngineRejection::NoRoom, actions);
            }
            if plan.wake.contains(&place) {
                engine.enter(EngineState::Waking);
                actions.push(Action::Wake(id));
                continue;
            }
            let drains = plan.drain.contains(&place) || is_long_idle(&self.rules, engine, now_us);
            match engine.state {
                EngineState::Awake if drains => engine.enter(EngineState::Draining {
                    until_us: now_us.saturating_add(self.rules.drain_us),
                    cut: false,
                }),
                // The requests that it was to make room for have left.
                EngineState::Draining { cut: false, .. } if !drains => {
                    engine.enter(EngineState::Awake);
                }
                _ => {}
            }
            let EngineState::Draining { until_us, cut } = engine.state else {
                continue;
            };
            if engine.running.is_empty() || (cut && now_us >= until_us) {
                engine.enter(EngineState::FallingAsleep);
                actions.push(Action::Sleep(id));
            } else if now_us >= until_us {
                engine.enter(EngineState::Draining {
                    until_us: now_us.saturating_add(self.rules.cut_us),
                    cut: true,
                });
                let running = engine.running.iter();
                actions.extend(running.map(|&request| Action::Cut { request }));
            }
        }
    }

    /// Time at which [`pump`](Self::pump) has something to do without an event before it.
    pub fn next_us(&self, now_us: u64) -> Option<u64> {
        let used = self.used();
        let is_pressed = used > self.rules.capacity || self.engines.iter().any(is_wanted);
        let times = self.engines.iter().flat_map(|engine| {
            let resident_us = engine.resident_until_us(self.rules.residence_us);
            let times = match engine.state {
                EngineState::Draining { until_us, .. } => [Some(until_us), None],
                EngineState::Awake => [
                    is_pressed.then_some(resident_us),
                    self.rules
                        .idle_us
                        .filter(|_| engine.is_idle())
                        .map(|idle| engine.used_us.saturating_add(idle).max(resident_us)),
                ],
                _ if is_wanted(engine) => {
                    let oldest_us = oldest(&self.requests, engine);
                    [
                        Some(oldest_us.saturating_add(self.rules.turn_us)),
                        Some(engine.no_wake_before_us),
                    ]
                }
                _ => [None, None],
            };
            times.into_iter().flatten()
        });
        times.filter(|&at| at > now_us).min()
    }

    /// State of an engine.
    pub fn state(&self, engine: EngineId) -> Option<EngineState> {
        self.engines.get(engine.0).map(|of| of.state)
    }

    /// Numbers of waiting and of running requests of an engine.
    pub fn load(&self, engine: EngineId) -> (usize, usize) {
        let of = self.engines.get(engine.0);
        of.map_or((0, 0), |of| (of.waiting.len(), of.running.len()))
    }

    /// Arrival of the oldest request that waits for an engine.
    pub fn oldest_us(&self, engine: EngineId) -> Option<u64> {
        let of = self.engines.get(engine.0)?;
        (!of.waiting.is_empty()).then(|| oldest(&self.requests, of))
    }

    /// Time of an engine's last request.
    pub fn used_us(&self, engine: EngineId) -> Option<u64> {
        let used = self.engines.get(engine.0).map(|of| of.used_us);
        used.filter(|&at| at > 0)
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.engines.iter().map(|of| of.waiting.len()).sum()
    }

    /// Memory that the engines take, by the group's record.
    pub fn used(&self) -> u64 {
        let used = self.engines.iter().map(Engine::occupied);
        used.fold(0, u64::saturating_add)
    }

    /// Rules of the group.
    pub const fn rules(&self) -> &GroupRules {
        &self.rules
    }
}

fn oldest(requests: &BTreeMap<RequestId, Request>, engine: &Engine) -> u64 {
    let first = engine.waiting.first();
    let first = first.and_then(|request| requests.get(request));
    first.map_or(u64::MAX, |of| of.arrived_us)
}

fn refuse_all(
    requests: &mut BTreeMap<RequestId, Request>,
    engine: &mut Engine,
    rejection: EngineRejection,
    actions: &mut Vec<Action>,
) {
    while let Some(request) = engine.waiting.pop_first() {
        requests.remove(&request);
        actions.push(Action::Refuse { request, rejection });
    }
}

fn is_long_idle(rules: &GroupRules, engine: &Engine, now_us: u64) -> bool {
    let Some(idle_us) = rules.idle_us else {
        return false;
    };
    engine.is_idle()
        && now_us >= engine.used_us.saturating_add(idle_us)
        && now_us >= engine.resident_until_us(rules.residence_us)
}
