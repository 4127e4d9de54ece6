//! A device, or the stand-in for one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};
use tetris_gpu_mirror::compute::Compute;
use tetris_gpu_mirror::memory::cuda::VmmDevice;
use tetris_gpu_mirror::memory::host::HostDevice;
use tetris_gpu_mirror::memory::{DeviceMemory, MemoryError};

/// Which device a process opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceChoice {
    /// The one with this number.
    Cuda(u32),
    /// Host memory.
    StandIn {
        /// So much of it.
        bytes: u64,
    },
}

/// What is measured on.
pub trait Backend: Compute + Sized + 'static {
    /// Its memory is the host's, and its figures say nothing of a GPU.
    const STAND_IN: bool;
    /// What a process's context takes of the device, in bytes: an estimate, for the check whether there is room.
    const CONTEXT_BYTES: u64;

    /// Opens the device in this process.
    fn open(choice: DeviceChoice) -> Result<Self, MemoryError>;

    /// Device memory in use, in bytes: as the driver counts it, whoever has it; or, with the stand-in, the memory of chunks that
    /// `processes` have.
    fn used_bytes(&self, processes: &[u32]) -> Result<u64, MemoryError>;

    /// The driver's version, as people know it.
    fn driver_version() -> Option<String>;
}

impl Backend for VmmDevice {
    const STAND_IN: bool = false;
    const CONTEXT_BYTES: u64 = 640 << 20;

    fn open(choice: DeviceChoice) -> Result<Self, MemoryError> {
        match choice {
            DeviceChoice::Cuda(number) => Self::open(number),
            DeviceChoice::StandIn { .. } => Err(mixed()),
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
    const STAND_IN: bool = true;
    const CONTEXT_BYTES: u64 = 0;

    fn open(choice: DeviceChoice) -> Result<Self, MemoryError> {
        match choice {
            DeviceChoice::StandIn { bytes } => Ok(Self::new(bytes)),
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

/// The stand-in's chunks that a process has: identity, and allocated bytes.
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
        let found = fs::metadata(path).ok()?;
        Some(((found.dev(), found.ino()), found.blocks() * 512))
    };
    files.filter(is_chunk).filter_map(bytes).collect()
}
