//! GPUs of a node, as its daemon's page lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use tetris_scaler_core::{GpuType, GpuView, MAX_GPUS};
use tetris_store_layout::ObjectId;

use super::error::{MAX_SHOWN, PageError};
use super::object_text::ObjectText;
use crate::resources::stored_object;
use crate::shown::shown;

/// A GPU with the daemon's GPU mirror, as the page has it.
#[derive(Debug, Deserialize)]
pub(super) struct GpuEntry {
    uuid: String,
    #[serde(rename = "type")]
    kind: String,
    usable: bool,
    total_bytes: u64,
    limit_bytes: u64,
    capacity_bytes: u64,
    held_bytes: u64,
    #[serde(default)]
    stores: Vec<StoreEntry>,
}

#[derive(Debug, Deserialize)]
struct StoreEntry {
    name: String,
    objects: Vec<ObjectText>,
}

/// A GPU of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGpu {
    /// UUID of the device.
    pub uuid: String,
    /// Type of the device.
    pub kind: GpuType,
    /// Device memory that the mirror leaves to processes, in bytes.
    pub own_bytes: u64,
    /// Device memory that the mirror may take at the moment, in bytes.
    pub capacity_bytes: u64,
    /// Of that, memory of objects that clients hold, in bytes.
    pub held_bytes: u64,
    /// Objects in device memory, by the ids of [`stored_object`].
    pub resident: Arc<BTreeSet<ObjectId>>,
}

impl NodeGpu {
    /// Returns the GPU as the core takes it, without the tensors of its instances, `held`, each with
    /// its bytes.
    pub fn view(&self, held: Option<&BTreeMap<ObjectId, u64>>) -> GpuView {
        let ours = held.into_iter().flatten();
        let ours = ours.filter(|(id, _)| self.resident.contains(id));
        let ours = ours.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        let of_others = self.held_bytes.saturating_sub(ours);
        GpuView {
            uuid: self.uuid.clone(),
            kind: self.kind,
            tensor_bytes: self.capacity_bytes.saturating_sub(of_others),
            own_bytes: self.own_bytes,
            resident: Arc::clone(&self.resident),
        }
    }
}

/// Returns the usable GPUs of a page.
///
/// # Errors
///
/// More than [`MAX_GPUS`], or a type that is no name.
pub(super) fn gpus(entries: Vec<GpuEntry>) -> Result<Vec<NodeGpu>, PageError> {
    let found = entries.len();
    if found > MAX_GPUS {
        return Err(PageError::Gpus(found));
    }
    let usable = entries.into_iter().filter(|gpu| gpu.usable);
    let read_gpus = usable.map(|gpu| {
        let kind = gpu.kind.parse::<GpuType>();
        let kind = kind.map_err(|error| PageError::GpuType {
            uuid: shown(&gpu.uuid, MAX_SHOWN),
            problem: shown(&error.to_string(), MAX_SHOWN),
        })?;
        let stores = gpu.stores.iter();
        let resident = stores.flat_map(|store| {
            let objects = store.objects.iter();
            objects.map(|object| stored_object(&store.name, &object.0))
        });
        Ok(NodeGpu {
            kind,
            own_bytes: gpu.total_bytes.saturating_sub(gpu.limit_bytes),
            capacity_bytes: gpu.capacity_bytes,
            held_bytes: gpu.held_bytes,
            resident: Arc::new(resident.collect()),
            uuid: gpu.uuid,
        })
    });
    read_gpus.collect()
}
