//! The parts that every form of the daemon has: the engine, the stores' sockets, the scrub, and the
//! counts of holders.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use tetris_service_kit::shutdown::signals;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::holder_counter::HolderCounter;
use super::other::OtherDaemon;
use super::pods;
use super::publisher::{Amend, Publisher};
use super::reload::reload;
use super::service::ServiceReports;
use super::sockets::Sockets;
use super::threads::Threads;
use crate::cold::ColdThread;
use crate::config::{Config, ConfigFlags};
use crate::engine::Reclaimer;
use crate::engine::commands::{Command, Engine, now_ms};
use crate::gpu_mirror::GpuMirrorThread;
use crate::http::{Health, HttpState};
use crate::metrics::Metrics;
use crate::models::KeptModels;
use crate::report::NodeStatus;
use crate::room::RoomResult;

/// Longest wait for the sockets to be taken away.
const SOCKETS_CLOSE: Duration = Duration::from_secs(10);
/// Longest wait of the cold tier for room.
const ROOM: Duration = Duration::from_mins(1);
/// A pass that takes longer hangs.
const LONGEST_PASS: Duration = Duration::from_mins(2);

/// The common parts, before the stores are opened.
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) dry_run: bool,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    pub(super) commands: Sender<Command>,
    pub(super) status: watch::Sender<Option<Arc<NodeStatus>>>,
    /// Changes to true at the end.
    pub(super) stopped: watch::Receiver<bool>,
    /// Done at a signal to stop.
    pub(super) signaled: Pin<Box<dyn Future<Output = ()>>>,
    stop: watch::Sender<bool>,
    received: Receiver<Command>,
    hang_up: Signal,
    pods: Threads,
    service: ServiceReports,
    /// Models that pods keep.
    pub(super) models: KeptModels,
}

/// The stores' sockets; none in a dry run.
pub(super) struct Claimed {
    sockets: Option<Sockets>,
    cold: Option<ColdThread>,
    closed: JoinHandle<()>,
}

impl Core {
    /// Prepares the parts. `health` gets the time limit of the daemon's loop.
    ///
    /// # Errors
    /// When threads or signals cannot be had.
    pub(super) fn new(
        config: Config,
        dry_run: bool,
        health: impl FnOnce(Duration) -> Health,
    ) -> Result<Self> {
        let service = ServiceReports::from_env();
        pods::raise_open_files();
        let pods = Threads::of_pods().context("cannot start the threads of the pods' sockets")?;
        let signaled = Box::pin(signals()?);
        let hang_up = signal(SignalKind::hangup())?;
        let (stop, stopped) = watch::channel(false);
        let (commands, received) = channel();
        let names = config.file.stores.iter().map(|store| store.name.clone());
        let metrics = Arc::new(Metrics::new(names));
        let health = Arc::new(health(config.interval() * 2 + LONGEST_PASS));
        let (status, latest) = watch::channel(None);
        service.follow(Arc::clone(&health), latest, stopped.clone());
        Ok(Self {
            config,
            dry_run,
            metrics,
            health,
            commands,
            status,
            stopped,
            signaled,
            stop,
            received,
            hang_up,
            pods,
            service,
            models: KeptModels::default(),
        })
    }

    /// Sources of the pages.
    pub(super) fn pages(&self) -> HttpState {
        HttpState {
            metrics: Arc::clone(&self.metrics),
            status: self.status.subscribe(),
            health: Arc::clone(&self.health),
        }
    }

    /// The stores, as far as they can be opened.
    pub(super) fn reclaimer(&self) -> Reclaimer {
        Reclaimer::new(self.config.clone(), self.dry_run, now_ms())
    }

    /// Listens on the stores' sockets.
    ///
    /// # Errors
    /// [`OtherDaemon`] if one of them belongs to another daemon, which began meanwhile.
    pub(super) async fn claim(&self, reclaimer: &Reclaimer) -> Result<Claimed, OtherDaemon> {
        if self.dry_run {
            // A dry run frees nothing, and a daemon that answers keeps agents from doing it.
            let closed = tokio::spawn(async {});
            return Ok(Claimed {
                sockets: None,
                cold: None,
                closed,
            });
        }
        let (commands, metrics) = (self.commands.clone(), Arc::clone(&self.metrics));
        let status = self.status.subscribe();
        let models = self.models.clone();
        let cold = self.cold();
        let (sockets, closed) = Sockets::new(self.pods.handle(), commands, metrics, status, models);
        let mut sockets = sockets.with_cold(cold.as_ref().and_then(ColdThread::orders));
        if let Err(other) = sockets.claim(&reclaimer.stores(), reclaimer.config()) {
            drop(sockets);
            let _left_behind = tokio::time::timeout(SOCKETS_CLOSE, closed).await;
            return Err(other);
        }
        Ok(Claimed {
            sockets: Some(sockets),
            cold,
            closed,
        })
    }

    /// The thread of the cold tier, if the configuration has one.
    fn cold(&self) -> Option<ColdThread> {
        let config = self.config.file.cold.clone()?;
        let policy = self.config.policy.clone();
        let metrics = Arc::clone(&self.metrics);
        let commands = self.commands.clone();
        let make_room = move |need| {
            let (reply, answer) = channel();
            let answered = Box::new(move |room: RoomResult| {
                let _waits_no_longer = reply.send(room.refused.is_none());
            });
            let asked = commands.send(Command::Room(need, answered));
            asked.is_ok() && answer.recv_timeout(ROOM) == Ok(true)
        };
        let started = ColdThread::start(config, policy, Box::new(make_room), metrics);
        started
            .inspect_err(
                |error| tracing::warn!(%error, "no cold tier: its thread cannot be started"),
            )
            .ok()
    }

    /// Looks after the stores until a signal to stop, and ends in order: the pass in progress ends,
    /// learned state is persisted, and the other parts are asked to stop. SIGHUP reads the
    /// configuration of `flags` again; a wrong one is logged and changes nothing. `reloaded` gets
    /// the new one before the engine.
    ///
    /// # Errors
    /// When the engine fails.
    pub(super) async fn look_after(
        mut self,
        flags: &ConfigFlags,
        reclaimer: Reclaimer,
        claimed: Claimed,
        gpu_mirror: Option<GpuMirrorThread>,
        amend: Amend,
        mut reloaded: impl FnMut(&Config),
    ) -> Result<()> {
        let Claimed {
            sockets,
            cold,
            closed,
        } = claimed;
        let reclaimer = reclaimer
            .with_references(gpu_mirror.as_ref().map(GpuMirrorThread::references))
            .with_granted(sockets.as_ref().map(Sockets::granted_room));
        let (counter, count_due) =
            HolderCounter::new(self.status.clone(), Arc::clone(&self.metrics));
        let counting = tokio::spawn(counter.run(self.stopped.clone()));
        let publisher = Publisher::new(
            self.commands.clone(),
            Arc::clone(&self.metrics),
            Arc::clone(&self.health),
            self.status.clone(),
            count_due,
            sockets,
            amend,
        )
        .with(gpu_mirror)
        .with_cold(cold);
        let received = self.received;
        let mut engine =
            tokio::task::spawn_blocking(|| Engine::new(reclaimer, received, publisher).run());
        let mut ended = None;
        while ended.is_none() {
            tokio::select! {
                () = &mut self.signaled => break,
                _ = self.hang_up.recv() => {
                    self.service.reloading();
                    let new = reload(flags, &self.config);
                    let accepted = new.is_some();
                    if let Some(new) = new {
                        reloaded(&new);
                        let _engine_has_ended = self.commands.send(Command::Reload(Box::new(new)));
                    }
                    self.service.reloaded(accepted);
                },
                result = &mut engine => ended = Some(result),
            }
        }
        tracing::info!("stopping");
        self.service.stopping();
        let _engine_has_ended = self.commands.send(Command::Stop);
        let ended = match ended {
            Some(ended) => ended,
            None => engine.await,
        };
        let _nobody_listens = self.stop.send(true);
        if tokio::time::timeout(SOCKETS_CLOSE, closed).await.is_err() {
            tracing::warn!("a socket is left behind: another daemon is about to take its place");
        }
        counting.await.context("the count of holders failed")?;
        ended.context("the engine failed")
    }

    /// Stops the other parts, where the stores were never looked after.
    pub(super) fn give_up(self) {
        self.service.stopping();
        let _nobody_listens = self.stop.send(true);
    }
}
