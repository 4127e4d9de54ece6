//! Which stores are served.

use std::path::Path;
use std::sync::Arc;

use tetris_gpu_mirror::memory::DeviceMemory;
use tetris_gpu_mirror::residency::TenantId;
use tetris_gpu_mirror::server::{Counters, Server, ServerError};
use tetris_store_layout::Store;

use super::GpuMirrorConfig;
use crate::node::OpenStore;

/// A server, whatever its devices are.
pub trait Serves: Send {
    /// [`Server::serve`].
    fn serve(
        &self,
        tenant: TenantId,
        store: Arc<Store>,
        quota_bytes: Option<u64>,
        path: &Path,
    ) -> Result<(), ServerError>;
    /// [`Server::leave`].
    fn leave(&self, tenant: TenantId) -> bool;
    /// [`Server::counters`].
    fn counters(&self) -> Counters;
}

impl<D: DeviceMemory + 'static> Serves for Server<D> {
    fn serve(
        &self,
        tenant: TenantId,
        store: Arc<Store>,
        quota_bytes: Option<u64>,
        path: &Path,
    ) -> Result<(), ServerError> {
        Self::serve(self, tenant, store, quota_bytes, path)
    }

    fn leave(&self, tenant: TenantId) -> bool {
        Self::leave(self, tenant)
    }

    fn counters(&self) -> Counters {
        Self::counters(self)
    }
}

/// The mirror of the node. Dropping it ends its sockets and hangs up on its clients, whose mappings stay.
pub struct Mirror {
    server: Box<dyn Serves>,
    config: GpuMirrorConfig,
    served: Vec<(OpenStore, TenantId)>,
    /// Stores without a socket, which were told of.
    told: Vec<OpenStore>,
    next: u32,
}

impl Mirror {
    /// A mirror that serves no store yet.
    pub fn new(server: Box<dyn Serves>, config: GpuMirrorConfig) -> Self {
        Self {
            server,
            config,
            served: Vec::new(),
            told: Vec::new(),
            next: 0,
        }
    }

    /// Serves these stores and no others.
    pub fn serve(&mut self, open: &[OpenStore]) {
        let (stay, gone) = self
            .served
            .drain(..)
            .partition(|(store, _)| open.contains(store));
        self.served = stay;
        let gone: Vec<(OpenStore, TenantId)> = gone;
        for (_, tenant) in gone {
            self.server.leave(tenant);
        }
        self.told.retain(|store| open.contains(store));
        for store in open {
            if self.served.iter().any(|(served, _)| served == store) {
                continue;
            }
            match self.start(store) {
                Ok(tenant) => {
                    self.told.retain(|told| told != store);
                    self.served.push((store.clone(), tenant));
                }
                Err(error) if !self.told.contains(store) => {
                    tracing::warn!(store = store.name, %error, "no GPU mirror: clients load into host memory");
                    self.told.push(store.clone());
                }
                Err(_) => {}
            }
        }
    }

    fn start(&mut self, store: &OpenStore) -> anyhow::Result<TenantId> {
        let opened = Arc::new(Store::open(&store.root)?);
        // A tenant's number is never another's, so what is left of a store that went stays apart.
        let tenant = TenantId(self.next);
        self.next += 1;
        let path = self.config.socket(store);
        self.server
            .serve(tenant, opened, self.config.store_bytes, &path)?;
        tracing::info!(store = store.name, socket = %path.display(), "GPU mirror");
        Ok(tenant)
    }

    /// What the mirror has done.
    pub fn counters(&self) -> Counters {
        self.server.counters()
    }
}
