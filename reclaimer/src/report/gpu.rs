//! GPUs with the GPU mirror.

use serde::Serialize;

/// A GPU of the GPU mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuStatus {
    /// UUID of the device, as `nvidia-smi -L` writes it.
    pub uuid: String,
    /// Type of the device: the product's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// True if the mirror runs and the device is not lost.
    pub usable: bool,
    /// Length of the device's memory, in bytes.
    pub total_bytes: u64,
    /// Most memory of the mirror there, in bytes.
    pub limit_bytes: u64,
    /// Of that, memory that the mirror may take at the moment, in bytes: less while other programs have
    /// it.
    pub capacity_bytes: u64,
    /// Memory that the mirror has taken, in bytes.
    pub created_bytes: u64,
    /// Memory of objects that clients hold or that are being copied, in bytes. Others leave when a
    /// model needs the room.
    pub held_bytes: u64,
    /// Number of models with objects there.
    pub models: usize,
    /// Objects by store.
    #[serde(skip)]
    pub stores: Vec<GpuStoreStatus>,
}

/// Objects of a store on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuStoreStatus {
    /// Name by which pods ask for the store.
    pub name: String,
    /// Identifiers of the objects, in hexadecimal and in order.
    pub objects: Vec<String>,
}
