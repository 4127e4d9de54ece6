//! Threads for clients that may be hostile, apart from those of volumes, probes and the watch.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for all sockets of pods. Blocking work has others.
const PODS: usize = 2;
/// Threads for pages over the network. Rendering has others.
const PAGES: usize = 1;

/// A runtime with its own threads. Slow or hostile clients take no time from the other ones.
pub(super) struct Threads {
    handle: Handle,
    /// There until the drop.
    runtime: Option<Runtime>,
}

impl Threads {
    /// Threads of the pods' sockets.
    pub(super) fn of_pods() -> io::Result<Self> {
        Self::new("pods", PODS)
    }

    /// Threads of pages that other hosts and pods read.
    pub(super) fn of_pages() -> io::Result<Self> {
        Self::new("pages", PAGES)
    }

    fn new(name: &str, threads: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name(name);
        let runtime = builder.enable_all().build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The remaining tasks need no wait: their servers have ended.
            runtime.shutdown_background();
        }
    }
}
