//! GPUs, and the links between them.

use std::collections::BTreeMap;

/// Number of a GPU, its place in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(pub u32);

/// A GPU and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Device memory for weights, in bytes.
    pub memory_bytes: u64,
    /// Node of the GPU.
    pub node: u32,
    /// Switch to the host. GPUs at the same switch are neighbors and share its bandwidth.
    pub switch: u32,
}

/// GPUs and links.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Topology {
    /// GPUs, by number.
    pub gpus: Vec<Gpu>,
    /// Bandwidth of each switch from the host, in bytes per second.
    pub host_bytes_per_s: u64,
    /// Bandwidth from one GPU to another where a link joins them, in bytes per second.
    pub peers: BTreeMap<(GpuId, GpuId), u64>,
}

impl Topology {
    /// Returns the numbers of all GPUs.
    pub fn ids(&self) -> impl Iterator<Item = GpuId> + use<> {
        (0..self.gpus.len() as u32).map(GpuId)
    }

    /// Returns the description of a GPU.
    pub fn gpu(&self, id: GpuId) -> Option<&Gpu> {
        self.gpus.get(id.0 as usize)
    }

    /// Returns the other GPUs at the same switch.
    pub fn neighbors(&self, id: GpuId) -> impl Iterator<Item = GpuId> + use<'_> {
        let switch = self.gpu(id).map(|gpu| gpu.switch);
        self.ids()
            .filter(move |&other| other != id && self.gpu(other).map(|gpu| gpu.switch) == switch)
    }
}

/// Time to move `bytes`, in microseconds, rounded up; 0 if `bytes` is.
pub fn transfer_us(bytes: u64, bytes_per_s: u64) -> u64 {
    let parts = u128::from(bytes) * 1_000_000;
    let us = parts.div_ceil(u128::from(bytes_per_s.max(1)));
    u64::try_from(us).unwrap_or(u64::MAX)
}
