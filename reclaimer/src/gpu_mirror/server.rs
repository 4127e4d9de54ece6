//! The GPU mirror's server as one interface over all kinds of devices.

use std::path::Path;
use std::sync::Arc;

use tetris_gpu_device::DeviceMemory;
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Limits, Report, Resident, Server, ServerError};
use tetris_store_layout::Store;

/// A server over any kind of devices.
pub trait Serves: Send + Sync {
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
    /// [`Server::set_quota`].
    fn set_quota(&self, tenant: TenantId, quota_bytes: Option<u64>);
    /// [`Server::set_limits`].
    fn set_limits(&self, limits: Limits) -> Result<(), ServerError>;
    /// [`Server::check`].
    fn check(&self);
    /// [`Server::unpin`].
    fn unpin(&self, tenant: TenantId) -> u64;
    /// [`Server::report`].
    fn report(&self) -> Report;
    /// [`Server::residents`].
    fn residents(&self) -> Vec<Resident>;
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

    fn set_quota(&self, tenant: TenantId, quota_bytes: Option<u64>) {
        Self::set_quota(self, tenant, quota_bytes);
    }

    fn set_limits(&self, limits: Limits) -> Result<(), ServerError> {
        Self::set_limits(self, limits)
    }

    fn check(&self) {
        Self::check(self);
    }

    fn unpin(&self, tenant: TenantId) -> u64 {
        Self::unpin(self, tenant)
    }

    fn report(&self) -> Report {
        Self::report(self)
    }

    fn residents(&self) -> Vec<Resident> {
        Self::residents(self)
    }
}
