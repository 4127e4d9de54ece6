//! The sockets of the stores, for agents' requests for room and their files.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use tetris_wire::TakeoverError;
use tetris_wire::daemon::{self as protocol, RoomReason};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::other::OtherDaemon;
use crate::cold::ColdOrders;
use crate::config::Config;
use crate::engine::commands::Command;
use crate::ingest::{Broker, IngestOptions};
use crate::metrics::{Metrics, RoomOutcome};
use crate::models::KeptModels;
use crate::report::{ErrorClass, LatestStatus};
use crate::room::{GrantedRoom, RoomNeed, RoomRefusal, RoomResult};
use crate::socket::{Fault, Limits, RoomAnswer, RoomAsk, Socket, SocketError};
use crate::store::OpenStore;

/// Number of loads that may wait for the engine.
const QUEUE: usize = 256;

/// The sockets of all open stores.
pub(super) struct Sockets {
    runtime: Handle,
    asks: mpsc::Sender<RoomAsk>,
    metrics: Arc<Metrics>,
    broker: Broker,
    status: LatestStatus,
    models: KeptModels,
    cold: Option<ColdOrders>,
    served: Vec<Served>,
    /// True if pods get the stores read-only: then no client could use room itself.
    readers_only: bool,
    /// Stores without a socket whose failure was logged.
    told: Vec<OpenStore>,
    /// Another daemon found at a store.
    other: Option<OtherDaemon>,
}

struct Served {
    store: OpenStore,
    /// Dropping it ends the server.
    _stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Sockets {
    /// Requests for room go to `commands`. Clients are talked with on `runtime`. The task ends when
    /// the sockets are dropped and the last of them has lost its name.
    pub(super) fn new(
        runtime: &Handle,
        commands: Sender<Command>,
        metrics: Arc<Metrics>,
        status: LatestStatus,
        models: KeptModels,
    ) -> (Self, JoinHandle<()>) {
        let (asks, queue) = mpsc::channel(QUEUE);
        let engine = Mutex::new(commands.clone());
        // When the engine has ended the answer is dropped, which ends the wait.
        let room = move |need, reply| {
            let engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
            let _ended = engine.send(Command::Room(need, reply));
        };
        let closed = runtime.spawn(hand_on(queue, commands, Arc::clone(&metrics)));
        let observer = Arc::clone(&metrics);
        let broker = Broker::observed(IngestOptions::default(), Arc::new(room), observer);
        let sockets = Self {
            runtime: runtime.clone(),
            asks,
            metrics,
            broker,
            status,
            models,
            cold: None,
            served: Vec::new(),
            readers_only: false,
            told: Vec::new(),
            other: None,
        };
        (sockets, closed)
    }

    /// With a cold tier.
    pub(super) fn with_cold(mut self, cold: Option<ColdOrders>) -> Self {
        self.cold = cold;
        self
    }

    /// Room that was granted to files of clients and is not filled yet.
    pub(super) fn granted_room(&self) -> impl GrantedRoom + use<> {
        self.broker.granted_room()
    }

    /// Serves these stores when the daemon starts.
    ///
    /// # Errors
    /// [`OtherDaemon`] if one of them belongs to another daemon, which began meanwhile.
    pub(super) fn claim(&mut self, open: &[OpenStore], config: &Config) -> Result<(), OtherDaemon> {
        self.serve(open, config);
        self.other.take().map_or(Ok(()), Err)
    }

    /// Serves these stores and no others, under this configuration.
    pub(super) fn serve(&mut self, open: &[OpenStore], config: &Config) {
        self.broker.configure(IngestOptions::from(config));
        let readers_only = config.file.gives_volumes();
        if std::mem::replace(&mut self.readers_only, readers_only) != readers_only {
            self.served.clear();
        }
        self.served
            .retain(|served| open.contains(&served.store) && !served.server.is_finished());
        self.told.retain(|store| open.contains(store));
        for store in open {
            if !self.served.iter().any(|served| served.store == *store) {
                self.start(store);
            }
        }
    }

    fn start(&mut self, store: &OpenStore) {
        let _runtime = self.runtime.enter();
        let socket = match Socket::bind(&store.root, store.name.as_str()) {
            Ok(socket) => socket
                .with_broker(self.broker.clone())
                .with_status(self.status.clone())
                .with_models(self.models.clone())
                .with_cold(self.cold.clone())
                .for_readers(self.readers_only),
            Err(error) => {
                if let SocketError::Takeover(TakeoverError::InUse { pid, .. }) = &error {
                    self.other = Some(OtherDaemon {
                        store: store.name.clone(),
                        path: store.root.clone(),
                        pid: *pid,
                    });
                }
                if !self.told.contains(store) {
                    tracing::warn!(store = store.name, %error, "no socket: agents make room by themselves");
                    self.told.push(store.clone());
                }
                self.metrics.error(ErrorClass::Store, Some(&store.name));
                return;
            }
        };
        self.told.retain(|told| told != store);
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _dropped = stopped.await;
        };
        let (metrics, name) = (Arc::clone(&self.metrics), store.name.clone());
        let on_fault = move |fault: Fault| {
            tracing::debug!(store = name, ?fault, "client");
            metrics.error(ErrorClass::Request, Some(&name));
        };
        let served = socket.serve(self.asks.clone(), Limits::default(), on_fault, stopped);
        self.served.push(Served {
            store: store.clone(),
            _stop: stop,
            server: self.runtime.spawn(served),
        });
    }
}

async fn hand_on(
    mut asks: mpsc::Receiver<RoomAsk>,
    commands: Sender<Command>,
    metrics: Arc<Metrics>,
) {
    while let Some(ask) = asks.recv().await {
        if ask.reply.is_closed() {
            continue;
        }
        let need = RoomNeed {
            store: ask.store,
            bytes: ask.bytes,
            inodes: u64::from(ask.inodes),
            ..RoomNeed::default()
        };
        tracing::info!(
            store = need.store,
            bytes = need.bytes,
            inodes = need.inodes,
            uid = ask.peer.uid,
            pid = ask.peer.pid,
            "a load asks for room"
        );
        let (metrics, store) = (Arc::clone(&metrics), need.store.clone());
        let bytes = need.bytes;
        let answer = move |room: RoomResult| {
            let outcome = match (room.refused, room.freed_bytes) {
                (None, _) => RoomOutcome::Served,
                (Some(_), 0) => RoomOutcome::Refused,
                (Some(_), _) => RoomOutcome::Partly,
            };
            metrics.request(&store, outcome, bytes);
            tracing::info!(store, ?room, "answer to the load");
            let _gone = ask.reply.send(answer_of(room));
        };
        if commands
            .send(Command::Room(need, Box::new(answer)))
            .is_err()
        {
            return;
        }
    }
}

fn answer_of(room: RoomResult) -> RoomAnswer {
    let (reason, text) = match room.refused {
        None => {
            return RoomAnswer::Made {
                free_bytes: room.free_bytes,
                freed_bytes: room.freed_bytes,
            };
        }
        Some(RoomRefusal::Unavailable) => (
            RoomReason::UNAVAILABLE,
            "the daemon cannot use the store now; its log says why",
        ),
        Some(RoomRefusal::TooLarge) => (
            RoomReason::TOO_LARGE,
            "the store is smaller than that; give it a larger one",
        ),
        Some(RoomRefusal::Limit) => (
            RoomReason::LIMIT,
            "the store is at its limit, and its remaining objects are mapped or declared warm; raise limit_bytes or limit_percent of its policy",
        ),
        Some(RoomRefusal::InUse) => (
            RoomReason::IN_USE,
            "the remaining objects are mapped; a larger store or fewer models would help",
        ),
        Some(RoomRefusal::Policy) => (
            RoomReason::POLICY,
            "the remaining objects are mapped, declared warm or guaranteed to other stores; /status gives the bytes of each",
        ),
    };
    RoomAnswer::Refused(protocol::RoomRefusal {
        missing_bytes: room.missing_bytes,
        reason,
        text: text.to_owned(),
    })
}
