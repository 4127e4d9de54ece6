//! The table `[gpu_mirror]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tetris_gpu_mirror::arena::ArenaConfig;
use tetris_gpu_mirror::protocol::MAX_DEVICES;

use crate::config::ConfigError;
use crate::node::OpenStore;

/// What the mirror's devices are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// The devices of NVIDIA's driver.
    #[default]
    Cuda,
    /// One device of host memory, for tests and for trying the mirror out where there is no GPU: copies of what lies in the store.
    StandIn,
}

/// The table `[gpu_mirror]`: one copy of each tensor in device memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuMirrorConfig {
    /// What the devices are.
    #[serde(default)]
    pub implementation: Implementation,
    /// What the mirror may take of each device, in bytes; never more than is free when the daemon starts.
    pub device_bytes: u64,
    /// What one store may take of each device, in bytes; all of it without.
    #[serde(default)]
    pub store_bytes: Option<u64>,
    /// Numbers of devices, as the driver has them; all of them when empty.
    #[serde(default)]
    pub devices: Vec<u32>,
    /// The length that chunks of device memory are made up to, in bytes: a multiple of 2 MiB.
    #[serde(default = "default_chunk_bytes")]
    pub chunk_bytes: u64,
    /// The folder of the sockets, each of which has its store's name; without it a store's socket is `gpu` in the store.
    #[serde(default)]
    pub socket_dir: Option<PathBuf>,
}

fn default_chunk_bytes() -> u64 {
    ArenaConfig::default().chunk_bytes()
}

impl GpuMirrorConfig {
    /// Checks every field.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let value = |field, expected: &str, found: &dyn std::fmt::Display| {
            Err(ConfigError::value(field, expected, found))
        };
        if self.device_bytes == 0 {
            return value("gpu_mirror.device_bytes", "at least 1", &0);
        }
        if self.store_bytes == Some(0) {
            return value("gpu_mirror.store_bytes", "at least 1", &0);
        }
        if self.implementation == Implementation::StandIn && !self.devices.is_empty() {
            let expected = "none, since the stand-in is one device";
            return value("gpu_mirror.devices", expected, &self.devices.len());
        }
        let mut numbers = self.devices.clone();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() < self.devices.len() || numbers.len() > MAX_DEVICES {
            let expected = "at most 64 numbers of devices, each once";
            return value("gpu_mirror.devices", expected, &self.devices.len());
        }
        if self.arena().is_none() {
            let expected = "a multiple of 2097152, at most 17179869184";
            return value("gpu_mirror.chunk_bytes", expected, &self.chunk_bytes);
        }
        match &self.socket_dir {
            Some(path) if !path.is_absolute() => {
                let expected = "an absolute path";
                value("gpu_mirror.socket_dir", expected, &path.display())
            }
            _ => Ok(()),
        }
    }

    /// The sizes of arenas, if they go together.
    pub(super) fn arena(&self) -> Option<ArenaConfig> {
        let standard = ArenaConfig::default();
        let arena = ArenaConfig::try_new(
            standard.granule_bytes(),
            self.chunk_bytes,
            standard.align_bytes(),
            standard.waste_percent(),
        );
        arena.ok().filter(|arena| arena.chunk_bytes() <= 16 << 30)
    }

    /// Where a store's clients connect.
    pub(super) fn socket(&self, store: &OpenStore) -> PathBuf {
        match &self.socket_dir {
            Some(folder) => folder.join(&store.name),
            None => store.root.join("gpu"),
        }
    }
}
