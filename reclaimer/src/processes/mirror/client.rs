//! The broker's side: a thread that talks with the process of the GPU mirror.
//!
//! # Flow
//! The thread follows the same orders as the mirror's own thread does in a daemon of one process.
//! It looks at the process every second, and passes it the stores again when another one has taken
//! its place. Each call has a time limit, and nothing is asked of a process that did not answer
//! the last one. So an absent, hung or killed process costs a pass nothing.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use axum::http::Method;
use tetris_service_kit::unix_http::{UnixClient, UnixHttpError};
use tokio::runtime::{Builder, Runtime};

use super::status::MirrorStatus;
use crate::gpu_mirror::orders::{Order, Orders, Wanted};
use crate::gpu_mirror::{
    GpuMirrorConfig, GpuMirrorStatus, GpuMirrorThread, GpuMirrorView, ResidencyMark, StoreResidents,
};
use crate::process::{Process, ProcessesConfig};
use crate::processes::messages::{
    MirrorServes, MirrorStore, MirrorStores, ReleaseReferences, ReleasedReferences,
};

/// Time between two looks at the process.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest time of a call. The process waits 2 s for its driver to release pages.
const CALL: Duration = Duration::from_secs(3);

/// Talks with the process of the GPU mirror that `config` describes, in a thread.
///
/// # Errors
/// When the thread cannot be started.
pub fn beside(
    processes: &ProcessesConfig,
    config: &GpuMirrorConfig,
) -> std::io::Result<GpuMirrorThread> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client = UnixClient::new(processes.socket_of(Process::Mirror), CALL);
    GpuMirrorThread::spawn(config.implementation, move |view, orders| {
        let mut courier = Courier {
            runtime,
            client,
            view: Arc::clone(view),
            wanted: None,
            told: None,
            residents: None,
            lost: false,
        };
        courier.run(orders);
    })
}

struct Courier {
    runtime: Runtime,
    client: UnixClient,
    view: Arc<GpuMirrorView>,
    /// Stores that the process is to serve.
    wanted: Option<Wanted>,
    /// The process that knows them.
    told: Option<String>,
    /// Objects on its devices, and the counts at which they were asked for.
    residents: Option<(String, ResidencyMark, Arc<[StoreResidents]>)>,
    /// True if the log states that the process does not answer.
    lost: bool,
}

impl Courier {
    fn run(&mut self, orders: &Orders) {
        while let Some(order) = orders.next(Some(LOOK_EVERY)) {
            match order {
                Order::Serve(wanted, done) => self.serve(wanted, &done),
                Order::Unpin(stores, done) => {
                    // The pass may not wait any more.
                    let _told = done.send(self.release(stores));
                }
                Order::Nothing => self.look(),
            }
        }
    }

    fn serve(&mut self, wanted: Wanted, done: &SyncSender<()>) {
        self.wanted = Some(wanted);
        self.told = None;
        self.look();
        // The engine may not wait any more.
        let _told = done.send(());
    }

    /// Shows the state of the process, and passes it the stores if it does not know them.
    fn look(&mut self) {
        let answer = self.ask::<(), MirrorStatus>(Method::GET, "/status", &());
        let Some(MirrorStatus { process, mirror }) = self.note(answer) else {
            return;
        };
        let residents = self.residents(&process, &mirror);
        self.view.show(mirror, &residents);
        if self.told.as_ref() == Some(&process) {
            return;
        }
        let Some(stores) = self.wanted.as_ref().map(message) else {
            return;
        };
        let served = self.ask::<MirrorStores, MirrorServes>(Method::PUT, "/stores", &stores);
        // Its status gives the reason it is not open, and it serves them once it is.
        if self.note(served).is_some() {
            self.told = Some(process);
        }
    }

    /// Returns the objects on the devices; asks for them once they have changed. Without an answer those
    /// of before stay: the next look asks again.
    fn residents(&mut self, process: &str, mirror: &GpuMirrorStatus) -> Arc<[StoreResidents]> {
        let mark = ResidencyMark::of(mirror);
        if let Some((of, at, known)) = &self.residents
            && of == process
            && *at == mark
        {
            return Arc::clone(known);
        }
        let asked = self.ask::<(), Vec<StoreResidents>>(Method::GET, "/residents", &());
        match asked {
            Ok(residents) => {
                let residents: Arc<[StoreResidents]> = residents.into();
                self.residents = Some((process.to_owned(), mark, Arc::clone(&residents)));
                residents
            }
            Err(error) => {
                tracing::debug!(%error, "the GPU mirror's process does not tell its objects");
                let known = self.residents.as_ref().filter(|(of, _, _)| of == process);
                known.map_or_else(Arc::default, |(_, _, known)| Arc::clone(known))
            }
        }
    }

    fn release(&mut self, stores: Vec<String>) -> u64 {
        let message = ReleaseReferences { stores };
        let released =
            self.ask::<_, ReleasedReferences>(Method::POST, "/references/release", &message);
        self.note(released).map_or(0, |released| released.bytes)
    }

    fn ask<Q, A>(&self, method: Method, path: &str, message: &Q) -> Result<A, UnixHttpError>
    where
        Q: serde::Serialize + Sync,
        A: serde::de::DeserializeOwned,
    {
        self.runtime
            .block_on(self.client.call(method, path, message))
    }

    /// The answer; without one the mirror is closed, for the reason.
    fn note<A>(&mut self, answer: Result<A, UnixHttpError>) -> Option<A> {
        match answer {
            Ok(answer) => {
                if std::mem::take(&mut self.lost) {
                    tracing::info!("the GPU mirror's process answers");
                }
                Some(answer)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.lost, true) {
                    tracing::warn!(%error, "the GPU mirror's process does not answer: clients load into host memory");
                }
                self.view.close(error.to_string());
                self.told = None;
                None
            }
        }
    }
}

fn message((open, config): &Wanted) -> MirrorStores {
    MirrorStores {
        stores: open.iter().map(MirrorStore::from).collect(),
        store_bytes: config.store_bytes,
        connections: config.connections as u64,
        connections_per_user: config.connections_per_user as u64,
    }
}
