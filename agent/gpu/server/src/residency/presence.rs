//! Presence of a model on a device.

use super::{DeviceId, Manager, ModelKey, TenantId};

/// The part of a model that is on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// Length of the model's objects, in bytes.
    pub bytes: u64,
    /// Length of those that have been copied, in bytes.
    pub resident_bytes: u64,
    /// True if an object of it is being copied.
    pub is_loading: bool,
}

impl Manager {
    /// Returns the presence of a tenant's model on a device; `None` if nothing there is known to be
    /// of this model.
    pub fn presence(
        &self,
        device: DeviceId,
        tenant: TenantId,
        model: ModelKey,
    ) -> Option<Presence> {
        let device = self.device_of(device)?;
        let resident = device.models.get(&(tenant, model))?;
        let mut presence = Presence {
            bytes: resident.bytes,
            resident_bytes: 0,
            is_loading: false,
        };
        for part in resident.parts.iter() {
            match device.objects.get(&(tenant, part.object)) {
                Some(object) if object.copying => presence.is_loading = true,
                Some(object) => presence.resident_bytes += object.len,
                None => {}
            }
        }
        Some(presence)
    }
}
