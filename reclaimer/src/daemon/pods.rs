//! Threads for the pods' sockets alone. Health, metrics, volumes and the watch have a runtime of
//! their own, and go on with slow or hostile pods.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for all pods of the node. Blocking work has others.
const THREADS: usize = 2;
/// Open files that a node with many stores and clients may need.
const FILES: u64 = 1 << 20;

/// The runtime of the pods' sockets.
pub(super) struct Pods {
    handle: Handle,
    /// There until the drop.
    runtime: Option<Runtime>,
}

impl Pods {
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("pods");
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

impl Drop for Pods {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The remaining tasks need no wait: the sockets have lost their names.
            runtime.shutdown_background();
        }
    }
}

/// Raises the limit on open files up to the hard limit. A message of a pod can carry 253
/// descriptors, which are open for a moment.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current, ..limit }) {
            tracing::warn!(%error, wanted, "the limit on open files (RLIMIT_NOFILE) stays as it is");
        }
    }
}
