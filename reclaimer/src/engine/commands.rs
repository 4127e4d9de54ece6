//! The loop that decides when a pass is made. It runs in its own thread: a pass blocks, and
//! everything asynchronous only sends it commands.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime};

use super::{Leave, PassResult, Reclaimer};
use crate::config::Config;
use crate::keep_warm::WarmSet;
use crate::records::millis;
use crate::report::Trigger;
use crate::room::{RoomNeed, RoomResult};
use crate::store::{OpenStore, StoreConfig, remove_directory};

/// Least time between two passes for events: a load publishes many objects.
const EVENT_GAP: Duration = Duration::from_secs(2);
/// Time between two writes of learned state.
const KEEP_EVERY: Duration = Duration::from_mins(1);
/// First wait until another look at a store that is being made, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// Longest time between two passes while a mount stays over its high watermark because nothing may
/// go.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Commands to the engine.
pub enum Command {
    /// A load waits for room; the answer goes to the function.
    Room(RoomNeed, Box<dyn FnOnce(RoomResult) + Send>),
    /// An object was published.
    Event,
    /// A directory was made where the stores of namespaces are.
    Look,
    /// The declarations of pods changed.
    Declared(WarmSet),
    /// Another configuration is in force.
    Reload(Box<Config>),
    /// Removes a store whose namespace is gone, with its contents; answered with the result.
    Remove(StoreConfig, SyncSender<StoreRemoval>),
    /// Ends the engine, after it persisted learned state.
    Stop,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Room(need, _) => f.debug_tuple("Room").field(need).finish(),
            Self::Event => f.write_str("Event"),
            Self::Look => f.write_str("Look"),
            Self::Declared(warm) => f.debug_tuple("Declared").field(warm).finish(),
            Self::Reload(_) => f.write_str("Reload"),
            Self::Remove(store, _) => f.debug_tuple("Remove").field(store).finish(),
            Self::Stop => f.write_str("Stop"),
        }
    }
}

/// Result of a store's removal.
#[derive(Debug)]
pub enum StoreRemoval {
    /// It is gone.
    Done,
    /// Its objects are mapped.
    InUse,
    /// It could not be removed.
    Failed(String),
}

/// Receives the engine's reports.
pub trait Observer {
    /// A pass ended.
    fn passed(&mut self, passed: PassResult);
    /// The engine is alive.
    fn alive(&mut self);
    /// These stores are open, under this configuration. Called before each pass is reported,
    /// whether or not anything has changed.
    fn stores(&mut self, open: &[OpenStore], config: &Config);
    /// The tenant of this store is gone, and the store with it.
    fn left(&mut self, _store: &str) {}
}

/// The loop.
#[derive(Debug)]
pub struct Engine<O> {
    reclaimer: Reclaimer,
    commands: Receiver<Command>,
    observer: O,
    due: Due,
    /// Origin of the monotonic clock's readings.
    began: Instant,
}

/// Times of the next events.
#[derive(Debug)]
struct Due {
    interval: Instant,
    watermark: Instant,
    /// The next pass for events, while one is wanted.
    event: Option<Instant>,
    /// The next look at stores that are being made, while there are any, and the wait after it.
    look: Option<(Instant, Duration)>,
    keep: Instant,
    last_pass: Instant,
    /// Time until a mount that stays over its watermark is worth another pass.
    backoff: Duration,
}

/// Everything that arrived at once.
#[derive(Default)]
struct Inbox {
    needs: Vec<RoomNeed>,
    replies: Vec<Box<dyn FnOnce(RoomResult) + Send>>,
    event: bool,
    look: bool,
    changed: bool,
    stop: bool,
}

impl<O: Observer> Engine<O> {
    /// An engine that takes `commands` and reports to `observer`.
    pub fn new(reclaimer: Reclaimer, commands: Receiver<Command>, observer: O) -> Self {
        let now = Instant::now();
        let due = Due {
            interval: now,
            watermark: now,
            event: None,
            look: None,
            keep: now + KEEP_EVERY,
            last_pass: now,
            backoff: Duration::ZERO,
        };
        Self {
            reclaimer,
            commands,
            observer,
            due,
            began: now,
        }
    }

    /// Runs until a command to stop, or until all senders of commands are gone. Then it persists
    /// learned state.
    pub fn run(mut self) {
        self.pass(Trigger::Start, Inbox::default());
        loop {
            let mut inbox = self.wait();
            self.observer.alive();
            if inbox.stop {
                break;
            }
            self.grant_free(&mut inbox);
            if let Some(trigger) = self.trigger(&inbox) {
                self.pass(trigger, inbox);
            }
            if Instant::now() >= self.due.keep {
                let now_ms = self.now_ms();
                self.reclaimer.keep(now_ms);
                self.due.keep = Instant::now() + KEEP_EVERY;
            }
        }
        let now_ms = self.now_ms();
        self.reclaimer.keep(now_ms);
    }

    /// Now on the daemon's time line, in milliseconds.
    fn now_ms(&mut self) -> u64 {
        let monotonic_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.reclaimer.read_clocks(now_ms(), monotonic_ms)
    }

    /// Waits for a command or the next due event, and takes all waiting commands.
    fn wait(&mut self) -> Inbox {
        let mut inbox = Inbox::default();
        let times = [
            Some(self.due.interval),
            Some(self.due.watermark),
            self.due.event,
            self.due.look.map(|(at, _)| at),
        ];
        let next = times.into_iter().flatten().min();
        let wait = next.map_or(EVENT_GAP, |next| {
            next.saturating_duration_since(Instant::now())
        });
        match self.commands.recv_timeout(wait) {
            Ok(command) => self.take(command, &mut inbox),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => inbox.stop = true,
        }
        while let Ok(command) = self.commands.try_recv() {
            self.take(command, &mut inbox);
        }
        inbox
    }

    fn take(&mut self, command: Command, inbox: &mut Inbox) {
        match command {
            Command::Room(need, reply) => {
                inbox.needs.push(need);
                inbox.replies.push(reply);
            }
            Command::Event => inbox.event = true,
            Command::Look => inbox.look = true,
            Command::Declared(warm) => {
                self.reclaimer.declare(warm);
                inbox.changed = true;
            }
            Command::Reload(config) => {
                self.reclaimer.reconfigure(*config);
                inbox.changed = true;
            }
            Command::Remove(store, done) => {
                let removed = self.remove(&store);
                // The observer gets the new list of stores.
                inbox.changed |= matches!(removed, StoreRemoval::Done);
                let _gone = done.try_send(removed);
            }
            Command::Stop => inbox.stop = true,
        }
    }

    /// Removes a store: its contents, then its sockets and series, and the directory last.
    fn remove(&mut self, store: &StoreConfig) -> StoreRemoval {
        match self.reclaimer.leave(store) {
            Ok(Leave::InUse) => return StoreRemoval::InUse,
            Ok(Leave::Left) => {}
            Err(error) => return StoreRemoval::Failed(error.to_string()),
        }
        self.observer
            .stores(&self.reclaimer.stores(), self.reclaimer.config());
        self.observer.left(&store.name);
        match remove_directory(&store.path) {
            Ok(()) => StoreRemoval::Done,
            Err(error) => StoreRemoval::Failed(format!("{}: {error}", store.path.display())),
        }
    }

    /// Answers loads for which there is room without a pass. The others stay in the inbox.
    fn grant_free(&mut self, inbox: &mut Inbox) {
        if inbox.needs.is_empty() {
            return;
        }
        let rooms = self.reclaimer.grant_free(&inbox.needs);
        let waiting = inbox.needs.drain(..).zip(inbox.replies.drain(..));
        for ((need, reply), room) in waiting.zip(rooms).collect::<Vec<_>>() {
            if let Some(room) = room {
                reply(room);
            } else {
                inbox.needs.push(need);
                inbox.replies.push(reply);
            }
        }
    }

    /// The reason for a pass now; `None` if none is due.
    fn trigger(&mut self, inbox: &Inbox) -> Option<Trigger> {
        let now = Instant::now();
        if inbox.event && self.due.event.is_none() {
            self.due.event = Some(now.max(self.due.last_pass + EVENT_GAP));
        }
        // A load may wait for room in a store that was just made.
        let came = self.look_for_stores(inbox, now);
        if !inbox.needs.is_empty() {
            return Some(Trigger::Request);
        }
        if inbox.changed || came {
            return Some(Trigger::Change);
        }
        if now >= self.due.watermark || inbox.event {
            self.due.watermark = now + self.reclaimer.config().watermark_check();
            let over = self.reclaimer.over_watermark();
            if over && now >= self.due.last_pass + self.due.backoff {
                return Some(Trigger::Watermark);
            }
            if !over {
                self.due.backoff = Duration::ZERO;
            }
        }
        if self.due.event.is_some_and(|due| now >= due) {
            return Some(Trigger::Event);
        }
        (now >= self.due.interval).then_some(Trigger::Interval)
    }

    /// Looks for stores that have come, at each watermark check and when a directory was made. A
    /// store that is being made is looked at again soon. Returns true if one can be used now.
    fn look_for_stores(&mut self, inbox: &Inbox, now: Instant) -> bool {
        let again = self.due.look.filter(|(at, _)| now >= *at);
        if !inbox.look && again.is_none() && now < self.due.watermark {
            return false;
        }
        let looked = self.reclaimer.look_for_stores();
        let wait = match again {
            Some((_, wait)) if !inbox.look => wait,
            _ => FIRST_LOOK,
        };
        let soon = looked.incomplete && wait < LONGEST_LOOK;
        self.due.look = soon.then(|| (now + wait, wait * 2));
        looked.came
    }

    fn pass(&mut self, trigger: Trigger, inbox: Inbox) {
        let now_ms = self.now_ms();
        let passed = self.reclaimer.pass(trigger, &inbox.needs, now_ms);
        for (reply, room) in inbox.replies.into_iter().zip(&passed.rooms) {
            reply(*room);
        }
        let now = Instant::now();
        if self.reclaimer.over_watermark() {
            let longer = (self.due.backoff * 2).max(Duration::from_secs(1));
            self.due.backoff = longer.min(MAX_BACKOFF);
        } else {
            self.due.backoff = Duration::ZERO;
        }
        self.due.last_pass = now;
        self.due.interval = now + self.reclaimer.config().interval();
        self.due.event = None;
        self.observer
            .stores(&self.reclaimer.stores(), self.reclaimer.config());
        self.observer.passed(passed);
    }
}

/// Now, in milliseconds since the epoch.
pub fn now_ms() -> u64 {
    millis(SystemTime::now())
}
