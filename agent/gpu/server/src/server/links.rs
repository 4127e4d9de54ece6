//! The links of a device, as they were configured, found or measured.

use std::collections::BTreeMap;

use super::Server;
use crate::residency::DeviceId;
use tetris_gpu_device::DeviceMemory;

/// The links of a device. Rates are in bytes per second.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceLinks {
    /// Rate of the link from the host; `None` if it is not known.
    pub from_host: Option<u64>,
    /// Name of the switch between the device and the host, whose bandwidth the devices there share;
    /// `None` if it is not known.
    pub switch: Option<String>,
    /// Rates of direct links from other devices; `None` for one that is not known.
    pub from_devices: BTreeMap<DeviceId, Option<u64>>,
}

impl<D: DeviceMemory + 'static> Server<D> {
    /// Sets the links of a device. Until then none is known.
    pub fn set_links(&self, device: DeviceId, links: DeviceLinks) {
        if let Some(slot) = self.core.state().devices.get_mut(&device) {
            slot.links = links;
        }
    }

    /// Sets the length in bytes up to which a model is light on a device, and leaves first: what
    /// its link copies in the time that an inference hides.
    pub fn set_light_bytes(&self, device: DeviceId, light_bytes: u64) {
        let mut state = self.core.state();
        state.manager.set_light_bytes(device, light_bytes);
    }
}
