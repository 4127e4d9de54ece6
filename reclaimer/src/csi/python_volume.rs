//! Volumes of the Python package, as the kubelet asks for them.

use std::sync::PoisonError;

use tonic::Status;

use super::error::VolumeError;
use super::node::{CsiDriver, DriverParts, PUBLISH, logged};
use super::publish::{self, MountUse};
use super::python::is_package_mount;
use super::request::Publish;

impl CsiDriver {
    /// Gives a pod the package.
    pub(super) async fn publish_python(&self, wish: Publish) -> Result<(), Status> {
        let host_users = self.may_be_idmapped(&wish).await;
        self.blocking(move |shared| logged(PUBLISH, shared.publish_python(&wish, host_users)))
            .await
    }
}

impl DriverParts {
    fn publish_python(&self, wish: &Publish, host_users: bool) -> Result<(), VolumeError> {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let target = self.target(wish)?;
        if let Some((entry, _)) = target.mounted()?
            && entry.is_read_only()
            && is_package_mount(&entry)
        {
            // A pod keeps the version that it has.
            return Ok(());
        }
        let package = self.package.directory()?;
        let map = self.ids.map().filter(|_| host_users);
        publish::publish(&target, &package, map, MountUse::Code)?;
        tracing::info!(
            volume = wish.volume_id,
            namespace = wish.namespace,
            pod = wish.pod,
            pod_uid = wish.pod_uid,
            package = %package.path().display(),
            idmapped = map.is_some(),
            "volume published"
        );
        Ok(())
    }
}
