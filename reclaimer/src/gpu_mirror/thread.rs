//! The mirror's thread: a driver that takes its time, or hangs, keeps the rest of the daemon from nothing.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{GpuMirror, GpuMirrorConfig, GpuMirrorReferences, GpuMirrorView, descriptors, open};
use crate::store::OpenStore;

/// How long the engine waits until a new store's socket is there, so that the pod that the store is for finds it.
const SOCKET_WAIT: Duration = Duration::from_secs(1);
/// How long the daemon's end waits for the mirror's.
const END_WAIT: Duration = Duration::from_secs(10);

/// What is to be served, and how.
type Wanted = (Vec<OpenStore>, GpuMirrorConfig);

/// What the thread is told. Who told it may wait no longer when it is done.
pub(super) enum Order {
    /// Serve these stores and no others.
    Serve(Wanted, SyncSender<()>),
    /// Give up what of these stores is registered, and say how many bytes that were.
    Unpin(Vec<String>, SyncSender<u64>),
}

/// The way to the thread, until the mirror ends.
pub(super) type Orders = Arc<Mutex<Option<Sender<Order>>>>;

/// Tells the thread, if there still is one.
pub(super) fn send(orders: &Orders, order: Order) -> bool {
    let orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread has ended when there is no driver.
    orders.as_ref().is_some_and(|to| to.send(order).is_ok())
}

/// The GPU mirror, in a thread of its own. Dropping it ends it.
pub struct GpuMirrorThread {
    orders: Orders,
    ended: Receiver<()>,
    view: Arc<GpuMirrorView>,
    last: Option<Wanted>,
}

impl GpuMirrorThread {
    /// Opens the devices that `config` names, in the thread. If that fails the log says so, and the daemon goes on without.
    pub fn start(config: GpuMirrorConfig) -> std::io::Result<Self> {
        let view = GpuMirrorView::new(config.implementation);
        let (orders, received) = channel();
        let (ends, ended) = channel();
        let shown = Arc::clone(&view);
        let thread = std::thread::Builder::new().name("mirror".to_owned());
        thread.spawn(move || {
            run(config, &shown, &received);
            // Nobody listens when it took too long.
            let _told: Result<(), _> = ends.send(());
        })?;
        Ok(Self {
            orders: Arc::new(Mutex::new(Some(orders))),
            ended,
            view,
            last: None,
        })
    }

    /// How the mirror is.
    pub fn view(&self) -> &Arc<GpuMirrorView> {
        &self.view
    }

    /// A way to have it give up what it has registered.
    pub fn references(&self) -> GpuMirrorReferences {
        GpuMirrorReferences::new(Arc::clone(&self.orders), Arc::clone(&self.view))
    }

    /// Serves these stores and no others, with what of `config` can change; and has devices asked whether they work.
    pub fn serve(&mut self, open: &[OpenStore], config: &GpuMirrorConfig) {
        let wanted = (open.to_vec(), config.clone());
        let (done, served) = sync_channel(1);
        let sent = send(&self.orders, Order::Serve(wanted.clone(), done));
        let is_new = self.last.as_ref() != Some(&wanted);
        self.last = Some(wanted);
        if is_new && sent && self.view.is_open() {
            // An error means that it takes longer, or has ended: clients load into host memory.
            let _late = served.recv_timeout(SOCKET_WAIT);
        }
    }
}

impl Drop for GpuMirrorThread {
    fn drop(&mut self) {
        let orders = self.orders.lock();
        *orders.unwrap_or_else(PoisonError::into_inner) = None;
        if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(END_WAIT) {
            tracing::warn!("the GPU mirror is left behind: its driver does not answer");
        }
    }
}

fn run(config: GpuMirrorConfig, view: &Arc<GpuMirrorView>, orders: &Receiver<Order>) {
    descriptors::make_room(config.connections);
    let opened = match open(&config) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::warn!(%error, "no GPU mirror (table `gpu_mirror`)");
            return;
        }
    };
    let mut mirror = GpuMirror::new(opened, config, Arc::clone(view));
    for order in orders {
        // The engine may not wait any more for what it is told.
        match order {
            Order::Serve((stores, config), done) => {
                mirror.configure(&config);
                mirror.serve(&stores);
                mirror.check();
                let _told = done.send(());
            }
            Order::Unpin(stores, done) => {
                let _told = done.send(mirror.unpin(&stores));
            }
        }
    }
}
