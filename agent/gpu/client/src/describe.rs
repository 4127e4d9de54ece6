//! The state of a device.

use tetris_wire::after;

use super::error::unexpected;
use super::{Client, ClientError};
use tetris_gpu_device::DeviceUuid;
use tetris_gpu_protocol::ModelKey;
use tetris_gpu_protocol::{
    Describe, Description, LinkEntry, MAX_NAMED_MODELS, ModelEntry, Reply, Request, TransferEntry,
};

/// State of a device: its memory, its links, its transfers, and the named models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    /// The device itself.
    pub device: Description,
    /// Its links to other devices of the server.
    pub links: Vec<LinkEntry>,
    /// Transfers to it: of the named models, and of all others together.
    pub transfers: Vec<TransferEntry>,
    /// The named models, in the order of the question.
    pub models: Vec<ModelEntry>,
}

impl Client {
    /// Returns the state of a device, and of the first [`MAX_NAMED_MODELS`] of `models` there. A
    /// server reveals nothing of other models.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the server has no such device or does not answer in time;
    /// [`ClientError::TooOld`] if it does not know the question.
    pub fn describe(
        &mut self,
        device: DeviceUuid,
        models: &[ModelKey],
    ) -> Result<DeviceState, ClientError> {
        let named = models.iter().take(MAX_NAMED_MODELS).copied();
        let describe = Describe {
            device,
            models: named.collect(),
        };
        let deadline = after(self.timeout);
        self.send(&Request::Describe(describe), deadline)?;
        let next = || Ok(self.reply_with(deadline, "the state of a device")?.0);
        let first: Result<_, ClientError> = next();
        let Reply::Description(device) = first.map_err(|error| error.of_new("Describe"))? else {
            return Err(unexpected("Description"));
        };
        let mut state = DeviceState {
            device,
            links: Vec::new(),
            transfers: Vec::new(),
            models: Vec::new(),
        };
        if state.device.links > 0 {
            match next()? {
                Reply::Links(links) => state.links = links,
                _ => return Err(unexpected("Links")),
            }
        }
        if state.device.transfers > 0 {
            match next()? {
                Reply::Transfers(transfers) => state.transfers = transfers,
                _ => return Err(unexpected("Transfers")),
            }
        }
        if state.device.models > 0 {
            match next()? {
                Reply::Models(models) => state.models = models,
                _ => return Err(unexpected("Models")),
            }
        }
        Ok(state)
    }
}
