//! Checks of the table `[gpu_mirror]`.

use std::fmt::Display;

use tetris_gpu_mirror::protocol::MAX_DEVICES;

use super::{GpuMirrorConfig, Implementation};
use crate::field_error::FieldError;

/// As many buffers of a group's size are pinned where pages cannot be registered, so a group has
/// bounds.
const GROUP_BYTES: std::ops::RangeInclusive<u64> = 65_536..=67_108_864;
/// At most a day: longer references would only keep room from the store.
const PINNED_SECS: std::ops::RangeInclusive<u64> = 0..=86_400;
const STREAMS: std::ops::RangeInclusive<usize> = 1..=16;
const CONNECTIONS: std::ops::RangeInclusive<usize> = 1..=65_536;

fn value(field: &str, expected: impl Display, found: impl Display) -> Result<(), FieldError> {
    let field = format!("gpu_mirror.{field}");
    Err(FieldError::new(&field, expected, found))
}

fn range<T: PartialOrd + Display>(
    field: &str,
    found: T,
    range: &std::ops::RangeInclusive<T>,
) -> Result<(), FieldError> {
    if range.contains(&found) {
        return Ok(());
    }
    let expected = format!("{} to {}", range.start(), range.end());
    value(field, expected, found)
}

impl GpuMirrorConfig {
    /// Checks every field.
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        range("device_bytes", self.device_bytes, &(1..=u64::MAX))?;
        range(
            "store_bytes",
            self.store_bytes.unwrap_or(1),
            &(1..=u64::MAX),
        )?;
        self.check_devices()?;
        if self.arena().is_none() {
            let expected = "a multiple of 2097152, at most 17179869184";
            return value("chunk_bytes", expected, self.chunk_bytes);
        }
        let group_bytes = self.group_bytes.unwrap_or(*GROUP_BYTES.start());
        range("group_bytes", group_bytes, &GROUP_BYTES)?;
        range("pinned_secs", self.pinned_secs, &PINNED_SECS)?;
        range("streams", self.streams, &STREAMS)?;
        range("connections", self.connections, &CONNECTIONS)?;
        let own = 1..=self.connections;
        range("connections_per_user", self.connections_per_user, &own)?;
        match &self.socket_dir {
            Some(path) if !path.is_absolute() => {
                value("socket_dir", "an absolute path", path.display())
            }
            _ => Ok(()),
        }
    }

    fn check_devices(&self) -> Result<(), FieldError> {
        let found = self.devices.len();
        if self.implementation == Implementation::Simulated && found > 0 {
            return value(
                "devices",
                "none, since the simulated device is one device",
                found,
            );
        }
        let mut numbers = self.devices.clone();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() < found || found > MAX_DEVICES {
            let expected = format!("at most {MAX_DEVICES} numbers of devices, each once");
            return value("devices", expected, found);
        }
        Ok(())
    }
}
