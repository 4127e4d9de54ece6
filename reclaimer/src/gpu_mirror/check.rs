//! Checks of the table `[gpu_mirror]`.

use std::fmt::Display;

use tetris_gpu_protocol::MAX_DEVICES;

use super::GpuMirrorConfig;
use crate::field_error::FieldError;

/// Sixteen buffers of a group's size are pinned for each device, so a group has bounds.
const GROUP_BYTES: std::ops::RangeInclusive<u64> = 65_536..=67_108_864;
/// At most a day: longer references would only keep room from the store.
const PINNED_SECS: std::ops::RangeInclusive<u64> = 0..=86_400;
const TEMPLATE_TTFT_MS: std::ops::RangeInclusive<u64> = 1..=600_000;
/// At most a minute: longer is no time that an inference hides.
const LIGHT_MS: std::ops::RangeInclusive<u64> = 0..=60_000;
const STREAMS: std::ops::RangeInclusive<usize> = 1..=16;
const CONNECTIONS: std::ops::RangeInclusive<usize> = 1..=65_536;

/// Mistakes of the table's fields.
#[derive(Default)]
struct Mistakes(Vec<FieldError>);

impl Mistakes {
    fn add(&mut self, field: &str, expected: impl Display, found: impl Display) {
        let field = format!("gpu_mirror.{field}");
        self.0.push(FieldError::new(&field, expected, found));
    }

    fn range<T: PartialOrd + Display>(
        &mut self,
        field: &str,
        found: T,
        range: &std::ops::RangeInclusive<T>,
    ) {
        if !range.contains(&found) {
            let expected = format!("{} to {}", range.start(), range.end());
            self.add(field, expected, found);
        }
    }
}

impl GpuMirrorConfig {
    /// Mistakes of all fields.
    pub(crate) fn mistakes(&self) -> Vec<FieldError> {
        let mut mistakes = Mistakes::default();
        mistakes.range("device_bytes", self.device_bytes, &(1..=u64::MAX));
        let store_bytes = self.store_bytes.unwrap_or(1);
        mistakes.range("store_bytes", store_bytes, &(1..=u64::MAX));
        self.check_devices(&mut mistakes);
        if self.arena().is_none() {
            let expected = "a multiple of 2097152, at most 17179869184";
            mistakes.add("chunk_bytes", expected, self.chunk_bytes);
        }
        let group_bytes = self.group_bytes.unwrap_or(*GROUP_BYTES.start());
        mistakes.range("group_bytes", group_bytes, &GROUP_BYTES);
        mistakes.range("spare_bytes", self.spare_bytes, &(0..=self.device_bytes));
        mistakes.range("light_ms", self.light_ms, &LIGHT_MS);
        let link = self.link_bytes_per_sec.unwrap_or(1);
        mistakes.range("link_bytes_per_sec", link, &(1..=u64::MAX));
        mistakes.range("pinned_secs", self.pinned_secs, &PINNED_SECS);
        let ttft_ms = self.template_ttft_ms;
        mistakes.range("template_ttft_ms", ttft_ms, &TEMPLATE_TTFT_MS);
        mistakes.range("streams", self.streams, &STREAMS);
        mistakes.range("connections", self.connections, &CONNECTIONS);
        let allowed = 1..=self.connections;
        mistakes.range("connections_per_user", self.connections_per_user, &allowed);
        if let Some(path) = self.socket_dir.as_ref().filter(|path| !path.is_absolute()) {
            mistakes.add("socket_dir", "an absolute path", path.display());
        }
        mistakes.0
    }

    fn check_devices(&self, mistakes: &mut Mistakes) {
        let found = self.devices.len();
        if !self.switches.is_empty() && self.switches.len() != found {
            let expected = "none, or one for each number in `devices`";
            mistakes.add("switches", expected, self.switches.len());
        }
        let mut numbers = self.devices.clone();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() < found || found > MAX_DEVICES {
            let expected = format!("at most {MAX_DEVICES} numbers of devices, each once");
            mistakes.add("devices", expected, found);
        }
    }
}
