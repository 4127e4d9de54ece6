//! State of the GPU mirror, for metrics and status.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_gpu_server::Report;
use tetris_gpu_server::residency::TenantId;

use super::residents::{StoreResidents, gpus, residents};
use super::{GpuMirrorStatus, Implementation, Serves};
use crate::report::GpuStatus;

/// Duration of an operation from which its driver counts as hung. Opening the devices and
/// releasing gigabytes of pages take seconds.
const HUNG: Duration = Duration::from_secs(10);

/// Latest state of the GPU mirror, as its thread leaves it.
pub struct GpuMirrorView {
    implementation: Implementation,
    inside: Mutex<Inside>,
}

struct Inside {
    state: State,
    /// The thread's operation that has not ended, and its start.
    operation: Option<(&'static str, Instant)>,
}

enum State {
    /// It does not serve, for this reason.
    Closed(String),
    /// Its server is in this process.
    Here {
        server: Arc<dyn Serves>,
        missing_devices: usize,
        stores: BTreeMap<TenantId, String>,
    },
    /// Its server is in another process, which reported this.
    Beside {
        status: Box<GpuMirrorStatus>,
        residents: Arc<[StoreResidents]>,
    },
}

impl fmt::Debug for GpuMirrorView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuMirrorView({})", self.implementation.name())
    }
}

impl GpuMirrorView {
    /// Of a mirror that does not serve yet.
    pub fn new(implementation: Implementation) -> Arc<Self> {
        let inside = Inside {
            state: State::Closed("the GPU mirror has just been started".to_owned()),
            operation: None,
        };
        Arc::new(Self {
            implementation,
            inside: Mutex::new(inside),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// State of the GPU mirror now. No driver is asked.
    pub fn status(&self) -> GpuMirrorStatus {
        // Under the lock, so that no report uses the server after `close`.
        let inside = self.lock();
        let hung = inside.hung();
        let running = hung.is_none();
        match &inside.state {
            State::Closed(reason) => GpuMirrorStatus {
                implementation: self.implementation,
                running: false,
                reason: Some(hung.unwrap_or_else(|| reason.clone())),
                missing_devices: 0,
                report: Report::default(),
                stores: BTreeMap::new(),
            },
            State::Here {
                server,
                missing_devices,
                stores,
            } => GpuMirrorStatus {
                implementation: self.implementation,
                running,
                reason: hung,
                missing_devices: *missing_devices,
                report: server.report(),
                stores: stores.clone(),
            },
            State::Beside { status, .. } => GpuMirrorStatus::clone(status),
        }
    }

    /// Objects on its devices. No driver is asked.
    pub(crate) fn residents(&self) -> Arc<[StoreResidents]> {
        let inside = self.lock();
        match &inside.state {
            State::Closed(_) => Arc::default(),
            State::Here { server, .. } => residents(server.residents()).into(),
            State::Beside { residents, .. } => Arc::clone(residents),
        }
    }

    /// Its devices with their objects, for the inventory. No driver is asked.
    pub fn gpus(&self) -> Vec<GpuStatus> {
        gpus(&self.status(), &self.residents())
    }

    /// The reason that it does not serve; `None` where it does.
    pub(crate) fn reason(&self) -> Option<String> {
        let inside = self.lock();
        let hung = inside.hung();
        match &inside.state {
            State::Closed(reason) => Some(hung.unwrap_or_else(|| reason.clone())),
            State::Here { .. } => hung,
            State::Beside { status, .. } => status.reason.clone(),
        }
    }

    /// Returns true if it serves, and its thread may be waited for.
    pub(crate) fn is_open(&self) -> bool {
        let inside = self.lock();
        match &inside.state {
            State::Closed(_) => false,
            State::Here { .. } => inside.hung().is_none(),
            State::Beside { status, .. } => status.running,
        }
    }

    /// Shows a server of this process.
    pub(super) fn open(&self, server: &Arc<dyn Serves>, missing_devices: usize) {
        self.lock().state = State::Here {
            server: Arc::clone(server),
            missing_devices,
            stores: BTreeMap::new(),
        };
    }

    pub(super) fn serves(&self, served: BTreeMap<TenantId, String>) {
        if let State::Here { stores, .. } = &mut self.lock().state {
            *stores = served;
        }
    }

    /// Shows the report of another process, with the objects that are known of it.
    pub(crate) fn show(&self, status: GpuMirrorStatus, residents: &Arc<[StoreResidents]>) {
        self.lock().state = State::Beside {
            status: Box::new(status),
            residents: Arc::clone(residents),
        };
    }

    /// Shows a mirror that does not serve.
    pub(crate) fn close(&self, reason: String) {
        let before = std::mem::replace(&mut self.lock().state, State::Closed(reason));
        // Outside the lock: it may be the server's last use.
        drop(before);
    }

    /// Does `work`, which a driver can delay for any time.
    pub(super) fn during<T>(&self, operation: &'static str, work: impl FnOnce() -> T) -> T {
        self.lock().operation = Some((operation, Instant::now()));
        let result = work();
        self.lock().operation = None;
        result
    }
}

impl Inside {
    /// The operation that has taken too long.
    fn hung(&self) -> Option<String> {
        let (operation, since) = self.operation?;
        let took = since.elapsed();
        (took >= HUNG).then(|| {
            let secs = took.as_secs();
            format!("the driver hangs: {operation} has taken {secs} s; load into host memory, and restart the machine if it stays so")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_hangs_is_told_and_not_waited_for() {
        let view = GpuMirrorView::new(Implementation::Cuda);
        let began = |ago: Duration| {
            let since = Instant::now().checked_sub(ago).unwrap();
            view.lock().operation = Some(("opening the devices", since));
        };
        began(Duration::ZERO);
        let reason = view.status().reason.unwrap();
        assert!(reason.contains("just been started"), "{reason}");
        began(HUNG);
        let reason = view.status().reason.unwrap();
        assert!(
            reason.contains("the driver hangs: opening the devices has taken"),
            "{reason}"
        );
        assert!(!view.is_open());
    }
}
