//! Devices of the benchmark: a GPU, or host memory in its place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::compute::Compute;
use serde::{Deserialize, Serialize};
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceMemory, MemoryError};

/// The device that a process opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceChoice {
    /// The GPU with this number.
    Cuda(u32),
    /// Host memory in place of a GPU.
    Simulated {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// A device to measure on.
pub trait Backend: Compute + Sized + 'static {
    /// True if its memory is host memory. Such figures do not apply to a GPU.
    const SIMULATED: bool;
    /// Estimate of the device memory of a process's context, in bytes, for the check of the free
    /// memory.
    const CONTEXT_BYTES: u64;

    /// Opens the device in this process.
    fn open(choice: DeviceChoice) -> Result<Self, MemoryError>;

    /// Length of the used device memory, in bytes. The driver's count includes all programs. On
    /// host memory it counts the chunks that `processes` have.
    fn used_bytes(&self, processes: &[u32]) -> Result<u64, MemoryError>;

    /// Version of the driver, in its usual notation.
    fn driver_version() -> Option<String>;
}

impl Backend for VmmDevice {
    const SIMULATED: bool = false;
    const CONTEXT_BYTES: u64 = 640 << 20;

    fn open(choice: DeviceChoice) -> Result<Self, MemoryError> {
        match choice {
            DeviceChoice::Cuda(number) => Self::open(number),
            DeviceChoice::Simulated { .. } => Err(mixed()),
        }
    }

    fn used_bytes(&self, _: &[u32]) -> Result<u64, MemoryError> {
        let info = self.info()?;
        Ok(info.total_bytes.saturating_sub(info.free_bytes))
    }

    fn driver_version() -> Option<String> {
        let version = fs::read_to_string("/sys/module/nvidia/version").ok()?;
        Some(version.trim().to_owned())
    }
}

impl Backend for HostDevice {
    const SIMULATED: bool = true;
    const CONTEXT_BYTES: u64 = 0;

    fn open(choice: DeviceChoice) -> Result<Self, MemoryError> {
        match choice {
            DeviceChoice::Simulated { bytes } => Ok(Self::new(bytes)),
            DeviceChoice::Cuda(_) => Err(mixed()),
        }
    }

    fn used_bytes(&self, processes: &[u32]) -> Result<u64, MemoryError> {
        Ok(processes
            .iter()
            .flat_map(|process| chunks(*process))
            .collect::<BTreeMap<_, _>>()
            .values()
            .sum())
    }

    fn driver_version() -> Option<String> {
        None
    }
}

fn mixed() -> MemoryError {
    MemoryError::Unsupported {
        what: "a device of the other kind",
        next: "report this",
    }
}

/// Chunks of the simulated device that a process has open: identity, and allocated bytes.
fn chunks(process: u32) -> Vec<((u64, u64), u64)> {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let is_chunk = |path: &std::path::PathBuf| {
        let target = fs::read_link(path).unwrap_or_default();
        target
            .to_string_lossy()
            .starts_with("/memfd:tetris-device-chunk")
    };
    let bytes = |path| {
        let stat = fs::metadata(path).ok()?;
        Some(((stat.dev(), stat.ino()), stat.blocks() * 512))
    };
    files.filter(is_chunk).filter_map(bytes).collect()
}
