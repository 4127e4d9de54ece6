//! State of the GPU mirror, for metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetris_gpu_mirror::residency::TenantId;
use tetris_gpu_mirror::server::Report;

use super::{Implementation, Serves};

/// State of the GPU mirror at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuMirrorStatus {
    /// Kind of its devices.
    pub implementation: Implementation,
    /// True if it serves. Without it clients load into host memory.
    pub running: bool,
    /// Devices that were asked for and could not be used when the daemon started.
    pub missing_devices: usize,
    /// State of the server; empty when there is none.
    pub report: Report,
    /// Names of the stores that it serves.
    pub stores: BTreeMap<TenantId, String>,
}

/// Latest state of the GPU mirror, as its thread leaves it.
pub struct GpuMirrorView {
    implementation: Implementation,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    server: Option<Arc<dyn Serves>>,
    missing_devices: usize,
    stores: BTreeMap<TenantId, String>,
}

impl fmt::Debug for GpuMirrorView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuMirrorView({})", self.implementation.name())
    }
}

impl GpuMirrorView {
    /// Of a mirror that does not serve yet.
    pub fn new(implementation: Implementation) -> Arc<Self> {
        let inside = Mutex::default();
        Arc::new(Self {
            implementation,
            inside,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State of the GPU mirror now. No driver is asked.
    pub fn status(&self) -> GpuMirrorStatus {
        // Under the lock, so that no report uses the server after `close`.
        let inside = self.lock();
        let report = inside.server.as_ref().map(|server| server.report());
        GpuMirrorStatus {
            implementation: self.implementation,
            running: inside.server.is_some(),
            missing_devices: inside.missing_devices,
            report: report.unwrap_or_default(),
            stores: inside.stores.clone(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().server.is_some()
    }

    pub(super) fn open(&self, server: &Arc<dyn Serves>, missing_devices: usize) {
        let mut inside = self.lock();
        inside.server = Some(Arc::clone(server));
        inside.missing_devices = missing_devices;
    }

    pub(super) fn serves(&self, stores: BTreeMap<TenantId, String>) {
        self.lock().stores = stores;
    }

    pub(super) fn close(&self) {
        let mut inside = self.lock();
        inside.server = None;
        inside.stores.clear();
    }
}
