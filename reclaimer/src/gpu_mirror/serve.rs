//! The GPU mirror's server, and the stores that it serves.

use std::sync::Arc;

use tetris_gpu_server::residency::TenantId;
use tetris_store_layout::Store;

use super::{GpuMirrorConfig, GpuMirrorView, Opened, Serves};
use crate::store::OpenStore;

/// The GPU mirror of the node. Dropping it ends its sockets and hangs up on its clients, whose
/// mappings stay.
pub struct GpuMirror {
    server: Arc<dyn Serves>,
    config: GpuMirrorConfig,
    view: Arc<GpuMirrorView>,
    served: Vec<(OpenStore, TenantId)>,
    /// Stores without a socket whose failure was logged.
    told: Vec<OpenStore>,
    next: u32,
}

impl GpuMirror {
    /// A GPU mirror that serves no store yet, and shows its state in `view`.
    pub fn new(opened: Opened, config: GpuMirrorConfig, view: Arc<GpuMirrorView>) -> Self {
        view.open(&opened.server, opened.missing);
        Self {
            server: opened.server,
            config,
            view,
            served: Vec::new(),
            told: Vec::new(),
            next: 0,
        }
    }

    /// Takes over the fields of a new table that can change while it runs: quotas and limits.
    pub fn configure(&mut self, new: &GpuMirrorConfig) {
        if self.config.store_bytes != new.store_bytes {
            self.config.store_bytes = new.store_bytes;
            for (_, tenant) in &self.served {
                self.server.set_quota(*tenant, new.store_bytes);
            }
        }
        if self.config.limits() == new.limits() {
            return;
        }
        match self.server.set_limits(new.limits()) {
            Ok(()) => {
                self.config.connections = new.connections;
                self.config.connections_per_user = new.connections_per_user;
            }
            Err(error) => tracing::warn!(%error, "the GPU mirror's limits stay as they are"),
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
        let names = self.served.iter();
        let names = names.map(|(store, tenant)| (*tenant, store.name.clone()));
        self.view.serves(names.collect());
    }

    /// Has each device asked whether it still works.
    pub fn check(&self) {
        self.server.check();
    }

    /// Releases pages of these stores registered for copies. Returns their bytes.
    pub fn unpin(&self, stores: &[String]) -> u64 {
        let served = self.served.iter();
        let named = served.filter(|(store, _)| stores.contains(&store.name));
        named.map(|(_, tenant)| self.server.unpin(*tenant)).sum()
    }

    fn start(&mut self, store: &OpenStore) -> anyhow::Result<TenantId> {
        let opened = Arc::new(Store::open(&store.root)?);
        anyhow::ensure!(
            opened.id() == store.id,
            "`{}`: expected store {}, found {}",
            store.root.display(),
            store.id,
            opened.id()
        );
        // A tenant's number is never another's, so what is left of a store that went stays apart.
        let tenant = TenantId(self.next);
        self.next += 1;
        let path = self.config.socket(store);
        self.server
            .serve(tenant, opened, self.config.store_bytes, &path)?;
        tracing::info!(store = store.name, socket = %path.display(), "GPU mirror");
        Ok(tenant)
    }
}

impl Drop for GpuMirror {
    fn drop(&mut self) {
        // No one but this has the server then, so that it ends here.
        self.view.close("the GPU mirror has ended".to_owned());
    }
}
