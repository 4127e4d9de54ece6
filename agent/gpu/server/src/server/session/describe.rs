//! The state of a device for a client.

use std::collections::BTreeSet;

use super::model::refused;
use super::{Ended, Session};
use crate::residency::{DeviceId, ModelKey, TenantId};
use crate::server::state::{Slot, State};
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::{
    Describe, Description, LinkEntry, MAX_NAME_BYTES, ModelEntry, ModelState, Reason, Reply,
    TransferEntry,
};

impl<D: DeviceMemory> Session<D> {
    pub(super) fn describe(&self, describe: &Describe) -> Result<(), Ended> {
        let Some(id) = self.core.device(describe.device) else {
            let uuid = describe.device;
            let text = format!("expected a device of this server, found {uuid}; list them");
            return self.reply(&Reply::Refused(refused(Reason::NO_DEVICE, text)));
        };
        if let Some(text) = self.core.state().lost(Some(id)) {
            return self.reply(&Reply::Refused(refused(Reason::NO_DEVICE, text)));
        }
        let replies = {
            let mut state = self.core.state();
            state.sweep();
            replies(&state, id, self.tenant.id, describe)
        };
        replies.iter().try_for_each(|reply| self.reply(reply))
    }
}

fn replies<D: DeviceMemory>(
    state: &State<D>,
    id: DeviceId,
    tenant: TenantId,
    describe: &Describe,
) -> Vec<Reply> {
    let Some(slot) = state.devices.get(&id) else {
        return Vec::new();
    };
    let links = links(state, slot);
    let transfers = transfers(slot, tenant, describe);
    let models = describe.models.iter();
    let models: Vec<_> = models.map(|key| model(state, id, tenant, *key)).collect();
    let usage = state.manager.usage(id).unwrap_or_default();
    let mut switch = slot.links.switch.clone().unwrap_or_default();
    switch.truncate(switch.floor_char_boundary(MAX_NAME_BYTES));
    let description = Description {
        device: slot.uuid,
        capacity_bytes: usage.capacity_bytes,
        free_bytes: usage.capacity_bytes.saturating_sub(usage.created_bytes),
        bytes_per_second: slot.links.from_host,
        light_bytes: state.manager.light_bytes(id),
        links: links.len() as u32,
        transfers: transfers.len() as u32,
        models: models.len() as u32,
        switch,
    };
    let mut replies = vec![Reply::Description(description)];
    replies.extend((!links.is_empty()).then_some(Reply::Links(links)));
    replies.extend((!transfers.is_empty()).then_some(Reply::Transfers(transfers)));
    replies.extend((!models.is_empty()).then_some(Reply::Models(models)));
    replies
}

/// Links to other devices of the server that work.
fn links<D: DeviceMemory>(state: &State<D>, slot: &Slot<D>) -> Vec<LinkEntry> {
    let link = |(id, rate): (&DeviceId, &Option<u64>)| {
        let other = state.devices.get(id)?;
        Some(LinkEntry {
            to: other.uuid,
            bytes_per_second: *rate,
        })
    };
    slot.links.from_devices.iter().filter_map(link).collect()
}

/// Transfers of the models that the client named, and the sum of all others.
fn transfers<D: DeviceMemory>(
    slot: &Slot<D>,
    tenant: TenantId,
    describe: &Describe,
) -> Vec<TransferEntry> {
    let named: BTreeSet<_> = describe.models.iter().collect();
    let left = slot
        .transfers
        .bytes_left(tenant, |model| named.contains(model));
    let entry = |(model, bytes_left)| TransferEntry {
        model: Some(model),
        bytes_left,
    };
    let mut entries: Vec<_> = left.named.into_iter().map(entry).collect();
    if left.others > 0 {
        entries.push(TransferEntry {
            model: None,
            bytes_left: left.others,
        });
    }
    entries
}

fn model<D: DeviceMemory>(
    state: &State<D>,
    id: DeviceId,
    tenant: TenantId,
    model: ModelKey,
) -> ModelEntry {
    let Some(presence) = state.manager.presence(id, tenant, model) else {
        return ModelEntry {
            model,
            state: ModelState::Absent,
            bytes: 0,
            bytes_left: 0,
        };
    };
    let bytes_left = presence.bytes.saturating_sub(presence.resident_bytes);
    let state = match (presence.is_loading, bytes_left) {
        (true, _) => ModelState::Loading,
        (false, 0) => ModelState::Resident,
        (false, _) => ModelState::Absent,
    };
    ModelEntry {
        model,
        state,
        bytes: presence.bytes,
        bytes_left,
    }
}
