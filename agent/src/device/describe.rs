//! The state of a device of the mirror, for those who schedule work on it.

use std::time::Duration;

use tetris_gpu_client::Client;
use tetris_gpu_device::DeviceUuid;
use tetris_gpu_protocol::ModelKey;
use tetris_gpu_protocol::{Description, LinkEntry, ModelState};
use tetris_store_layout::Digest;

use super::named::NamedModel;
use super::status::any;
use super::{DeviceError, Registry};
use crate::Agent;

/// State of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceView {
    /// Its memory, and its link from the host.
    pub device: Description,
    /// Its links to other devices of the mirror.
    pub links: Vec<LinkEntry>,
    /// Transfers to it: model, `None` for all that this process did not name, and number of bytes
    /// that have not arrived.
    pub transfers: Vec<(Option<Digest>, u64)>,
    /// The models that this process named, by a load or a prefetch.
    pub models: Vec<ModelView>,
}

/// A model that this process named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelView {
    /// Identity of its content.
    pub model: Digest,
    /// Length of its objects, in bytes.
    pub bytes: u64,
    /// Its presence on the device.
    pub state: ModelState,
    /// Length of its objects that are not on the device, in bytes.
    pub bytes_left: u64,
}

impl Registry {
    /// Returns the state of the mirror's device of this number, or of its first one, and of the
    /// models there that this process has named: the latest 1,024 that it loaded or prefetched.
    ///
    /// # Errors
    /// [`DeviceError`] if there is no store or no such device, or if the mirror does not answer
    /// within `timeout`.
    pub fn describe(
        &self,
        agent: &Agent,
        device: Option<u32>,
        timeout: Duration,
    ) -> Result<DeviceView, DeviceError> {
        let (mut client, _) = any(agent, timeout)?;
        let uuid = identity(&mut client, device)?;
        let named = self.named();
        let keys: Vec<_> = named.iter().flat_map(NamedModel::parts).copied().collect();
        let state = client.describe(uuid, &keys)?;
        let transfer = |one: &tetris_gpu_protocol::TransferEntry| {
            let model = one.model.and_then(|key| model_of(&named, key));
            (model, one.bytes_left)
        };
        let model = |one: &NamedModel| {
            let (state, bytes_left) = one.presence(&state.models);
            ModelView {
                model: one.model,
                bytes: one.bytes,
                state,
                bytes_left,
            }
        };
        Ok(DeviceView {
            transfers: state.transfers.iter().map(transfer).collect(),
            models: named.iter().map(model).collect(),
            device: state.device,
            links: state.links,
        })
    }
}

/// The model with a part of this key.
fn model_of(named: &[NamedModel], key: ModelKey) -> Option<Digest> {
    let mut named = named.iter();
    let entry = named.find(|entry| entry.parts().contains(&key))?;
    Some(entry.model)
}

/// The identity of the mirror's device of this number, or of its first one.
pub(super) fn identity(
    client: &mut Client,
    device: Option<u32>,
) -> Result<DeviceUuid, DeviceError> {
    let devices = client.devices()?;
    let mut of_number = devices.iter();
    let description = of_number.find(|entry| device.is_none_or(|number| entry.number == number));
    description
        .map(|device| device.uuid)
        .ok_or(DeviceError::NoDevice {
            asked: device.unwrap_or_default(),
            found: devices.len(),
        })
}
