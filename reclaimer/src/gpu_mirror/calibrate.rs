//! The calibration run at the daemon's start: how large groups of copies should be on a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_gpu_device::{DeviceMemory, HostSlice, MemoryError, Protection};
use tetris_gpu_server::copy::{
    DEFAULT_GROUP_BYTES, DEFAULT_SIZES, Sample, best_group_bytes, measure,
};

/// No run begins after this. A run copies [`MOST_BYTES`] and a little more: 56 ms at 10 GB/s.
const LONGEST: Duration = Duration::from_secs(1);
/// Length of a sample, and of the device memory and pinned memory for it: sizes differ by few
/// percent, which a shorter sample does not show.
const MOST_BYTES: u64 = 512 << 20;
/// Each size is tried as often, if there is time: disturbances make a run slower, and the
/// fastest counts.
const ROUNDS: usize = 3;
/// Sizes that may come of it. Sixteen buffers of the largest are 256 MiB for each device.
const SIZES: std::ops::RangeInclusive<u64> = 256 << 10..=16 << 20;
/// Result of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calibrated {
    /// Size of groups, in bytes.
    pub group_bytes: u64,
    /// Rate of the link from the host, in bytes per second; `None` if it was not measured.
    pub bytes_per_second: Option<u64>,
}

impl Calibrated {
    fn without_rate(group_bytes: u64) -> Self {
        Self {
            group_bytes,
            bytes_per_second: None,
        }
    }
}

/// The size of groups for `device`: the configured one, else the best of a run, else 2 MiB; and the
/// best rate of the run. At most a quarter of `device_bytes` is taken meanwhile.
pub(super) fn calibrated<D: DeviceMemory>(
    device: &D,
    number: u32,
    configured: Option<u64>,
    device_bytes: u64,
) -> Calibrated {
    let started = Instant::now();
    let sizes = configured.map_or_else(|| DEFAULT_SIZES.to_vec(), |bytes| vec![bytes]);
    let samples = samples(device, &sizes, device_bytes / 4, &mut || started.elapsed());
    let measured = samples.as_ref().map(|samples| best_group_bytes(samples));
    let otherwise = Calibrated::without_rate(configured.unwrap_or(DEFAULT_GROUP_BYTES));
    let took = started.elapsed();
    match measured {
        Ok(Some(bytes)) => {
            let best = samples
                .iter()
                .flatten()
                .map(|sample| sample.bytes_per_second)
                .max();
            tracing::info!(
                device = number,
                group_bytes = bytes,
                bytes_per_second = best,
                ?took,
                "calibrated copies to the device"
            );
            Calibrated {
                group_bytes: bytes,
                bytes_per_second: best,
            }
        }
        Ok(None) => {
            tracing::warn!(
                device = number,
                group_bytes = otherwise.group_bytes,
                "copies to the device were not calibrated: gpu_mirror.device_bytes is too small to try"
            );
            otherwise
        }
        Err(error) => {
            tracing::warn!(device = number, group_bytes = otherwise.group_bytes, %error, "copies to the device could not be calibrated");
            otherwise
        }
    }
}

/// Samples of `sizes` with at most `most_bytes` of the device's memory, all of which is given back.
fn samples<D: DeviceMemory>(
    device: &D,
    sizes: &[u64],
    most_bytes: u64,
    now: &mut dyn FnMut() -> Duration,
) -> Result<Vec<Sample>, MemoryError> {
    let granule_bytes = device.capabilities().granule_bytes.max(1);
    let bytes = most_bytes.min(MOST_BYTES) / granule_bytes * granule_bytes;
    let is_choice = sizes.len() > 1;
    let sizes = sizes.iter().copied();
    let sizes: Vec<_> = sizes
        .filter(|size| *size <= bytes && (!is_choice || SIZES.contains(size)))
        .collect();
    if sizes.is_empty() {
        return Ok(Vec::new());
    }
    let chunk = device.create(bytes)?;
    let range = device.reserve(bytes)?;
    let to = Arc::new(device.map(range, &chunk, Protection::ReadWrite)?);
    let from = HostSlice::whole(Arc::new(device.pinned(bytes as usize)?));
    let mut samples = Vec::new();
    for size in sizes.iter().cycle().take(sizes.len() * ROUNDS) {
        if !samples.is_empty() && now() > LONGEST {
            break;
        }
        samples.extend(measure(device, &to, &from, &[*size], now)?);
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use tetris_gpu_device::host::{Faults, HostDevice};

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn with_a_configured_size_the_rate_is_measured_alone() {
        let none = HostDevice::new(0);
        assert_eq!(
            calibrated(&none, 0, Some(123), 0),
            Calibrated::without_rate(123)
        );
        let device = HostDevice::new(64 * MIB);
        let measured = calibrated(&device, 0, Some(64 << 10), 64 * MIB);
        assert_eq!(measured.group_bytes, 64 << 10);
        assert!(measured.bytes_per_second.is_some());
        assert_eq!(device.info().unwrap().free_bytes, 64 * MIB);
    }

    #[test]
    fn a_run_gives_everything_back_and_finds_one_of_the_sizes() {
        let device = HostDevice::new(64 * MIB);
        let calibrated = calibrated(&device, 0, None, 64 * MIB);
        assert!(calibrated.bytes_per_second.is_some());
        let group_bytes = calibrated.group_bytes;
        assert!(
            SIZES.contains(&group_bytes) && group_bytes.is_power_of_two(),
            "{group_bytes}"
        );
        assert_eq!(device.info().unwrap().free_bytes, 64 * MIB);
    }

    #[test]
    fn a_sample_is_as_long_as_half_a_gib_if_a_quarter_of_the_device_is() {
        let device = HostDevice::new(2048 * MIB);
        let rates = |most_bytes| {
            let mut ticks = 0;
            let mut clock = || {
                // No time is left after the first sample.
                ticks += if ticks < 2 { 1 } else { 10_000 };
                Duration::from_millis(ticks)
            };
            samples(&device, &DEFAULT_SIZES, most_bytes, &mut clock).unwrap()[0].bytes_per_second
        };
        assert_eq!(rates(64 * MIB), 64_000 * MIB);
        assert_eq!(rates(1024 * MIB), 512_000 * MIB);
    }

    #[test]
    fn a_run_is_bounded_in_memory_and_time() {
        let device = HostDevice::new(16 * MIB);
        let mut seconds = 0;
        let mut slow = || {
            seconds += 1;
            Duration::from_secs(seconds)
        };
        // A quarter of the device: sizes that fit into 4 MiB, and after the first of them there is
        // no time left.
        let samples = samples(&device, &DEFAULT_SIZES, 4 * MIB, &mut slow).unwrap();
        assert_eq!(samples.len(), 1);
        let mut fast = || Duration::ZERO;
        let samples = super::samples(&device, &DEFAULT_SIZES, 4 * MIB, &mut fast).unwrap();
        assert_eq!(samples.len(), 5 * ROUNDS);
    }

    #[test]
    fn without_a_run_it_is_the_default() {
        let device = HostDevice::with_faults(
            64 * MIB,
            Faults {
                creates: 0,
                ..Faults::default()
            },
        );
        let otherwise = Calibrated::without_rate(DEFAULT_GROUP_BYTES);
        assert_eq!(calibrated(&device, 0, None, 64 * MIB), otherwise);
        let small = HostDevice::new(MIB);
        assert_eq!(calibrated(&small, 0, None, MIB), otherwise);
    }
}
