//! Rules that hold under any sequence of events.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::engines::{
    Action, EngineGroup, EngineId, EngineState, Finding, GroupRules,
};

use super::{SECOND, rules, tell, with};

/// Memory of the engines, awake and asleep.
const MEMORY: [(u64, u64); 4] = [(30, 2), (50, 5), (20, 0), (60, 1)];
const CAPACITY: u64 = 75;
/// Requests at engines may come back to a queue that has become full.
const GIVEN_BACK: usize = 8 * MEMORY.len();

#[derive(Clone, Copy, Debug)]
enum Event {
    Offer(usize),
    /// A client leaves, or a request ends.
    End(usize),
    GiveBack(usize),
    /// The order of an engine ends.
    Ordered(usize, bool),
    Ask(usize, Finding),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let engine = 0..MEMORY.len();
    let finding = prop_oneof![
        Just(Finding::NoProcess),
        Just(Finding::Silent),
        Just(Finding::NoPaths)
    ];
    prop_oneof![
        6 => engine.clone().prop_map(Event::Offer),
        4 => (0..50_usize).prop_map(Event::End),
        1 => (0..50_usize).prop_map(Event::GiveBack),
        6 => (engine.clone(), proptest::bool::weighted(0.9)).prop_map(|(engine, succeeded)| Event::Ordered(engine, succeeded)),
        1 => (engine, finding).prop_map(|(engine, finding)| Event::Ask(engine, finding)),
        4 => (0..15 * SECOND).prop_map(Event::Pass),
    ]
}

/// A group with its engines as they are.
struct World {
    group: EngineGroup,
    now_us: u64,
    /// True for awake engines.
    awake: [bool; MEMORY.len()],
    woken_us: [Option<u64>; MEMORY.len()],
    /// Known requests; true for those at an engine.
    requests: BTreeMap<RequestId, (usize, bool)>,
}

impl World {
    fn new(rules: GroupRules) -> Self {
        let mut group = with(rules, &MEMORY);
        for engine in 0..MEMORY.len() {
            tell(&mut group, 0, engine, Finding::Asleep);
        }
        Self {
            group,
            now_us: 0,
            awake: [false; MEMORY.len()],
            woken_us: [None; MEMORY.len()],
            requests: BTreeMap::new(),
        }
    }

    fn state(&self, engine: usize) -> EngineState {
        self.group.state(EngineId(engine)).unwrap()
    }

    fn happen(&mut self, event: Event) {
        let at = |world: &Self, place: usize| {
            let mut known = world.requests.keys().copied();
            known.nth(place % world.requests.len().max(1))
        };
        match event {
            Event::Offer(engine) => {
                if let Ok(request) = self.group.offer(self.now_us, EngineId(engine)) {
                    assert!(self.requests.insert(request, (engine, false)).is_none());
                }
            }
            Event::End(place) => {
                if let Some(request) = at(self, place) {
                    self.requests.remove(&request);
                    self.group.complete(self.now_us, request);
                }
            }
            Event::GiveBack(place) => {
                if let Some(request) = at(self, place)
                    && let Some((engine, running @ true)) = self.requests.get_mut(&request)
                {
                    *running = false;
                    let engine = *engine;
                    self.group.give_back(request);
                    self.answer(engine);
                }
            }
            Event::Ordered(engine, succeeded) => self.ordered(engine, succeeded),
            Event::Ask(engine, finding) => {
                if self.group.question(EngineId(engine)).is_some() {
                    tell(&mut self.group, self.now_us, engine, finding);
                    if finding == Finding::NoProcess {
                        self.awake[engine] = false;
                    }
                }
            }
            Event::Pass(us) => self.now_us += us,
        }
        self.pump();
    }

    fn ordered(&mut self, engine: usize, succeeded: bool) {
        match self.state(engine) {
            EngineState::FallingAsleep => {
                self.awake[engine] = !succeeded;
                self.group.slept(self.now_us, EngineId(engine), succeeded);
            }
            EngineState::Waking => {
                self.awake[engine] = succeeded;
                if succeeded {
                    self.woken_us[engine] = Some(self.now_us);
                }
                self.group.woke(self.now_us, EngineId(engine), succeeded);
            }
            _ => return,
        }
        if !succeeded {
            self.pump();
            self.answer(engine);
        }
    }

    /// Answers a question for the state.
    fn answer(&mut self, engine: usize) {
        if self.group.question(EngineId(engine)).is_none() {
            return;
        }
        let finding = if self.awake[engine] {
            Finding::Awake
        } else {
            Finding::Asleep
        };
        tell(&mut self.group, self.now_us, engine, finding);
    }

    fn pump(&mut self) {
        for action in self.group.pump(self.now_us) {
            match action {
                Action::Dispatch {
                    request, engine, ..
                } => {
                    assert!(self.awake[engine.0], "{engine:?} sleeps");
                    let (of, running) = self.requests.get_mut(&request).unwrap();
                    assert!(!*running && *of == engine.0);
                    *running = true;
                }
                Action::Refuse { request, .. } => {
                    let (_, running) = self.requests.remove(&request).unwrap();
                    assert!(!running);
                }
                Action::Cut { request } => assert!(self.requests[&request].1),
                Action::Sleep(engine) => {
                    let woken = self.woken_us[engine.0].unwrap_or(0);
                    assert!(self.now_us - woken >= self.group.rules().residence_us || woken == 0);
                }
                Action::Wake(engine) => {
                    let waits = |&(of, running): &(usize, bool)| of == engine.0 && !running;
                    assert!(self.requests.values().any(waits), "a needless wake");
                    let awake = |(place, &(awake, asleep)): (usize, &(u64, u64))| {
                        let has = self.awake[place] || place == engine.0;
                        if has { awake } else { asleep.min(awake) }
                    };
                    let used: u64 = MEMORY.iter().enumerate().map(awake).sum();
                    // Engines without a process have nothing.
                    let gone: u64 = (0..MEMORY.len())
                        .filter(|&place| self.state(place) == EngineState::Gone)
                        .map(|place| MEMORY[place].1)
                        .sum();
                    assert!(used - gone <= CAPACITY, "{used}");
                }
            }
        }
        assert!(self.group.waiting() <= self.group.rules().queue + GIVEN_BACK);
        let running: usize = (0..MEMORY.len())
            .map(|engine| self.group.load(EngineId(engine)).1)
            .sum();
        let expected = self
            .requests
            .values()
            .filter(|(_, running)| *running)
            .count();
        assert_eq!(
            (running, self.group.waiting() + running),
            (expected, self.requests.len())
        );
    }

    /// Lets engines obey, answer and end their requests until nothing waits.
    fn settle(&mut self) {
        for _ in 0..200 {
            for engine in 0..MEMORY.len() {
                self.ordered(engine, true);
                self.answer(engine);
            }
            self.pump();
            let running: Vec<_> = self
                .requests
                .iter()
                .filter(|(_, of)| of.1)
                .map(|(id, _)| *id)
                .collect();
            for request in running {
                self.requests.remove(&request);
                self.group.complete(self.now_us, request);
            }
            self.pump();
            if self.requests.is_empty() {
                return;
            }
            let is_ordered = (0..MEMORY.len()).any(|engine| {
                matches!(
                    self.state(engine),
                    EngineState::FallingAsleep | EngineState::Waking
                )
            });
            if !is_ordered {
                let next = self.group.next_us(self.now_us);
                self.now_us = next.expect("a request waits, and nothing will happen");
                self.pump();
            }
        }
        panic!("requests wait without an end: {:?}", self.group);
    }
}

proptest! {
    #[test]
    fn requests_end_once_and_engines_stay_within_the_memory(events in prop::collection::vec(event(), 1..200)) {
        let mut world = World::new(rules(CAPACITY));
        for event in events {
            world.happen(event);
        }
        world.settle();
    }

    #[test]
    fn no_residence_and_no_turn_still_serve_every_request(events in prop::collection::vec(event(), 1..200)) {
        let mut world = World::new(GroupRules { residence_us: 0, turn_us: 0, idle_us: Some(SECOND), ..rules(CAPACITY) });
        for event in events {
            world.happen(event);
        }
        world.settle();
    }
}
