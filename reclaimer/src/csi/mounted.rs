//! Volumes that pods have, counted in the list of mounts.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::fs::{major, minor};

use crate::mount::{MountEntry, all_mounts};

/// Number of volumes by the ids that pods see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VolumeCounts {
    /// Idmapped ones.
    pub idmapped: u64,
    /// Others.
    pub plain: u64,
}

/// Counts the mounts below the kubelet's directory of the stores' file systems, by their devices.
pub(super) fn count(
    kubelet_dir: &Path,
    devices: impl Iterator<Item = u64>,
) -> io::Result<VolumeCounts> {
    let numbers = |device| format!("{}:{}", major(device), minor(device));
    let devices: BTreeSet<String> = devices.map(numbers).collect();
    let pods = kubelet_dir.join("pods");
    let is_volume = |entry: &MountEntry| {
        devices.contains(&entry.device) && entry.mount_point.starts_with(&pods)
    };
    let mut counts = VolumeCounts::default();
    for entry in all_mounts()?.iter().filter(|entry| is_volume(entry)) {
        if entry.is_idmapped() {
            counts.idmapped += 1;
        } else {
            counts.plain += 1;
        }
    }
    Ok(counts)
}
