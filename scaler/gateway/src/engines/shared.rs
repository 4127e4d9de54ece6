//! A group that its tasks share: behind a lock, with a clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::engines::{Action, EngineGroup, EngineId, EngineRejection, Finding};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::client;
use super::cut::Cut;
use super::engine::Engine;
use super::metrics::EngineMetrics;
use super::settings::GroupSettings;
use crate::clock::Clock;

/// Answer to a waiting request.
pub(super) type Answer = Result<Given, EngineRejection>;

/// A dispatched request.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) waited_us: u64,
    pub(super) cut: Cut,
}

/// A group with its engines.
#[derive(Debug)]
pub(super) struct SharedGroup {
    pub(super) name: String,
    pub(super) settings: GroupSettings,
    pub(super) engines: Vec<Arc<Engine>>,
    pub(super) metrics: EngineMetrics,
    /// Wakes the timer.
    pub(super) changed: Arc<Notify>,
    /// Runtime of the group's tasks and orders.
    pub(super) runtime: Handle,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) group: EngineGroup,
    waiting: HashMap<RequestId, oneshot::Sender<Answer>>,
    running: HashMap<RequestId, oneshot::Sender<()>>,
}

impl SharedGroup {
    pub(super) fn new(
        name: &str,
        settings: GroupSettings,
        engines: Vec<Arc<Engine>>,
        metrics: EngineMetrics,
    ) -> Arc<Self> {
        let rules = engines.iter().map(|engine| engine.settings.rules);
        let group = EngineGroup::new(settings.rules, rules);
        Arc::new(Self {
            name: name.to_owned(),
            settings,
            engines,
            metrics,
            changed: Arc::default(),
            runtime: Handle::current(),
            clock: Clock::start(),
            state: Mutex::new(State {
                group,
                waiting: HashMap::new(),
                running: HashMap::new(),
            }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// Queues a request.
    pub(super) fn offer(
        self: &Arc<Self>,
        engine: EngineId,
    ) -> Result<(RequestId, oneshot::Receiver<Answer>), EngineRejection> {
        let now_us = self.now_us();
        let (tell, waiting) = oneshot::channel();
        let mut state = self.lock();
        let id = state.group.offer(now_us, engine)?;
        state.waiting.insert(id, tell);
        self.act(&mut state, now_us);
        Ok((id, waiting))
    }

    /// Lets a request wait again whose engine could not be reached.
    pub(super) fn give_back(
        self: &Arc<Self>,
        id: RequestId,
        engine: EngineId,
    ) -> oneshot::Receiver<Answer> {
        let (tell, waiting) = oneshot::channel();
        let mut state = self.lock();
        state.running.remove(&id);
        state.waiting.insert(id, tell);
        state.group.give_back(id);
        self.act(&mut state, self.now_us());
        drop(state);
        self.ask(engine);
        waiting
    }

    /// Forgets a request.
    pub(super) fn complete(self: &Arc<Self>, id: RequestId) {
        let now_us = self.now_us();
        let mut state = self.lock();
        state.waiting.remove(&id);
        state.running.remove(&id);
        state.group.complete(now_us, id);
        self.act(&mut state, now_us);
    }

    /// Asks an engine for its state soon.
    pub(super) fn ask(&self, engine: EngineId) {
        if let Some(engine) = self.engines.get(engine.0) {
            engine.changed.notify_one();
        }
    }

    /// Takes an engine's answer to a question. Returns true if its state is another one now.
    pub(super) fn learned(
        self: &Arc<Self>,
        engine: EngineId,
        question: u64,
        finding: Finding,
    ) -> bool {
        let now_us = self.now_us();
        let mut state = self.lock();
        let before = state.group.state(engine);
        state.group.learned(now_us, engine, question, finding);
        let is_new = state.group.state(engine) != before;
        self.act(&mut state, now_us);
        is_new
    }

    /// Takes the end of an order. After a failure the engine is asked for its state.
    pub(super) fn ordered(self: &Arc<Self>, engine: EngineId, wakes: bool, succeeded: bool) {
        let now_us = self.now_us();
        let mut state = self.lock();
        if wakes {
            state.group.woke(now_us, engine, succeeded);
        } else {
            state.group.slept(now_us, engine, succeeded);
        }
        self.act(&mut state, now_us);
        drop(state);
        self.ask(engine);
    }

    /// Carries out actions due by time. Returns the pause until the next ones.
    pub(super) fn pump(self: &Arc<Self>) -> Option<Duration> {
        let now_us = self.now_us();
        let mut state = self.lock();
        self.carry_out(&mut state, now_us);
        let next = state.group.next_us(now_us)?;
        Some(Duration::from_micros(next.saturating_sub(now_us)))
    }

    /// Carries out what follows from an event, and lets the timer look again.
    fn act(self: &Arc<Self>, state: &mut State, now_us: u64) {
        self.carry_out(state, now_us);
        self.changed.notify_one();
    }

    fn carry_out(self: &Arc<Self>, state: &mut State, now_us: u64) {
        for action in state.group.pump(now_us) {
            match action {
                Action::Dispatch {
                    request, waited_us, ..
                } => {
                    let (sender, receiver) = oneshot::channel();
                    let cut = Cut::by(receiver);
                    // A client that leaves now is forgotten when its request is dropped.
                    if let Some(tell) = state.waiting.remove(&request)
                        && tell.send(Ok(Given { waited_us, cut })).is_ok()
                    {
                        state.running.insert(request, sender);
                    }
                }
                Action::Refuse { request, rejection } => {
                    if let Some(tell) = state.waiting.remove(&request) {
                        drop(tell.send(Err(rejection)));
                    }
                }
                Action::Cut { request } => {
                    if let Some(sender) = state.running.remove(&request)
                        && sender.send(()).is_ok()
                    {
                        self.metrics.cut(&self.name);
                    }
                }
                Action::Sleep(engine) => self.order(engine, false),
                Action::Wake(engine) => self.order(engine, true),
            }
        }
    }

    fn order(self: &Arc<Self>, engine: EngineId, wakes: bool) {
        if let Some(engine) = self.engines.get(engine.0) {
            let order = carry_out(Arc::clone(self), Arc::clone(engine), wakes);
            self.runtime.spawn(order);
        }
    }
}

/// Orders an engine to wake up or to sleep, and passes on the result.
async fn carry_out(group: Arc<SharedGroup>, engine: Arc<Engine>, wakes: bool) {
    let settings = &group.settings;
    let begun = Instant::now();
    let ended = if wakes {
        client::wake(&engine, settings.level, settings.wake).await
    } else {
        client::sleep(&engine, settings.level, settings.sleep).await
    };
    let order = if wakes { "wake" } else { "sleep" };
    let name = &engine.settings.name;
    let took = begun.elapsed();
    group
        .metrics
        .ordered((&group.name, name), order, ended.is_ok(), took);
    match &ended {
        Ok(()) => tracing::info!(group = group.name, engine = %name, order, ?took, "order done"),
        Err(error) => {
            tracing::warn!(group = group.name, engine = %name, order, %error, "order failed");
        }
    }
    group.ordered(engine.id, wakes, ended.is_ok());
}
