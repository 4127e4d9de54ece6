//! The daemon's thread of the GPU mirror: the mirror itself, or the talk with the process that is
//! it. A driver or a process that is slow or hangs does not delay the rest of the daemon.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use super::opening::opened;
use super::orders::{EndOfOrders, Order, Orders, Wanted};
use super::{
    GpuMirror, GpuMirrorConfig, GpuMirrorReferences, GpuMirrorView, Implementation, descriptors,
    open,
};
use crate::store::OpenStore;

/// Longest wait of the engine for a new store's socket, so that the store's first pod finds it.
const SOCKET_WAIT: Duration = Duration::from_secs(1);
/// Longest wait of the daemon's end for the GPU mirror's.
const END_WAIT: Duration = Duration::from_secs(10);

/// The GPU mirror, behind its own thread. Dropping it ends the thread.
pub struct GpuMirrorThread {
    orders: Arc<Orders>,
    ended: Receiver<()>,
    view: Arc<GpuMirrorView>,
    last: Option<Wanted>,
}

impl GpuMirrorThread {
    /// Opens the devices that `config` names, in the thread. If that fails the log states so, and the
    /// daemon goes on without, while the thread tries again.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(config: GpuMirrorConfig) -> std::io::Result<Self> {
        let implementation = config.implementation;
        Self::spawn(implementation, move |view, orders| {
            run(config, view, orders);
        })
    }

    /// Follows the orders by `run`, in the thread, until they end.
    pub(crate) fn spawn(
        implementation: Implementation,
        run: impl FnOnce(&Arc<GpuMirrorView>, &Orders) + Send + 'static,
    ) -> std::io::Result<Self> {
        let view = GpuMirrorView::new(implementation);
        let orders = Arc::<Orders>::default();
        let (ends, ended) = channel();
        let (shown, taken) = (Arc::clone(&view), Arc::clone(&orders));
        let thread = std::thread::Builder::new().name("mirror".to_owned());
        thread.spawn(move || {
            let end = EndOfOrders(&taken);
            run(&shown, &taken);
            drop(end);
            // No one listens when it took too long.
            let _told: Result<(), _> = ends.send(());
        })?;
        Ok(Self {
            orders,
            ended,
            view,
            last: None,
        })
    }

    /// State of the GPU mirror.
    pub fn view(&self) -> &Arc<GpuMirrorView> {
        &self.view
    }

    /// A handle to release its registered pages.
    pub fn references(&self) -> GpuMirrorReferences {
        GpuMirrorReferences::new(Arc::clone(&self.orders), Arc::clone(&self.view))
    }

    /// Serves these stores and no others, with the changeable fields of `config`, and checks the
    /// devices.
    pub fn serve(&mut self, open: &[OpenStore], config: &GpuMirrorConfig) {
        let wanted = (open.to_vec(), config.clone());
        let (done, served) = sync_channel(1);
        let sent = self.orders.serve(wanted.clone(), done);
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
        self.orders.end();
        if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(END_WAIT) {
            tracing::warn!("the GPU mirror is left behind: its driver does not answer");
        }
    }
}

fn run(config: GpuMirrorConfig, view: &Arc<GpuMirrorView>, orders: &Orders) {
    descriptors::make_room(config.connections);
    let Some((opened, wanted)) = opened(&config, view, orders, open) else {
        return;
    };
    let mut mirror = GpuMirror::new(opened, config, Arc::clone(view));
    if let Some((stores, config)) = wanted {
        view.during("following the open stores", || {
            mirror.configure(&config);
            mirror.serve(&stores);
        });
    }
    while let Some(order) = orders.next(None) {
        // The engine may not wait any more for an answer.
        match order {
            Order::Serve((stores, config), done) => {
                view.during("following the open stores", || {
                    mirror.configure(&config);
                    mirror.serve(&stores);
                    mirror.check();
                });
                let _told = done.send(());
            }
            Order::Unpin(stores, done) => {
                let bytes = view.during("releasing pages", || mirror.unpin(&stores));
                let _told = done.send(bytes);
            }
            Order::Nothing => {}
        }
    }
}
