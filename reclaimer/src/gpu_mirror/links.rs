//! The links of the devices: configured, found or measured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_gpu_device::{DeviceMemory, MemoryError, Protection, switch_of};
use tetris_gpu_server::residency::DeviceId;
use tetris_gpu_server::{DeviceLinks, Server};

use super::GpuMirrorConfig;

/// Length of a copy between two devices, and of the memory for it on either: 3 ms at 25 GB/s.
const SAMPLE_BYTES: u64 = 64 << 20;
/// Number of copies of a pair. The fastest counts, because disturbances only slow a measurement; the
/// first one includes the time in which the driver joins the devices.
const ROUNDS: usize = 3;

/// Devices with the rate of their links from the host, in bytes per second.
pub(super) type Found<D> = (DeviceId, Arc<D>, Option<u64>);

/// Rates of the links between the devices in bytes per second: to, from, rate.
pub(super) type Rates = BTreeMap<(DeviceId, DeviceId), u64>;

/// Measures the links between the devices that have one.
pub(super) fn measured<D: DeviceMemory>(config: &GpuMirrorConfig, found: &[Found<D>]) -> Rates {
    let mut rates = Rates::new();
    if !config.copy_across {
        return rates;
    }
    for (to, device, _) in found {
        for (from, source, _) in found.iter().filter(|(from, ..)| from != to) {
            let most_bytes = (config.device_bytes / 4).min(SAMPLE_BYTES);
            match rate(&**device, &**source, most_bytes) {
                Ok(None) => {}
                Ok(Some(rate)) => {
                    tracing::info!(%to, %from, bytes_per_second = rate, "measured the link between two devices");
                    rates.insert((*to, *from), rate);
                }
                Err(error) => {
                    tracing::warn!(%to, %from, %error, "the link between two devices could not be measured: it is not used");
                }
            }
        }
    }
    rates
}

/// Rate of the link from `source` to `device`; `None` if there is none, or no memory to measure it.
fn rate<D: DeviceMemory>(
    device: &D,
    source: &D,
    most_bytes: u64,
) -> Result<Option<u64>, MemoryError> {
    let granule_bytes = device.capabilities().granule_bytes.max(1);
    let bytes = most_bytes / granule_bytes * granule_bytes;
    if bytes == 0 || !device.is_linked(source)? {
        return Ok(None);
    }
    let mapped = |device: &D| {
        let chunk = device.create(bytes)?;
        let mapping = device.map(device.reserve(bytes)?, &chunk, Protection::ReadWrite)?;
        Ok::<_, MemoryError>(Arc::new(mapping))
    };
    let (to, from) = (mapped(device)?, mapped(source)?);
    let mut stream = device.stream()?;
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        device.copy_across(&mut stream, &to, 0, source, &from, 0..bytes)?;
        device.synchronize(&mut stream)?;
        least = least.min(begun.elapsed());
    }
    let rate = u128::from(bytes) * 1_000_000_000 / least.as_nanos().max(1);
    Ok(Some(u64::try_from(rate).unwrap_or(u64::MAX)))
}

/// Sends the server the links of its devices, and which models are light there. `numbers` are those of
/// the configured devices.
pub(super) fn set<D: DeviceMemory + 'static>(
    config: &GpuMirrorConfig,
    numbers: &[u32],
    found: &[Found<D>],
    rates: &Rates,
    server: &Server<D>,
) {
    for (id, device, from_host) in found {
        let configured = numbers.iter().zip(&config.switches);
        let mut configured = configured.filter(|(number, _)| DeviceId(**number) == *id);
        let configured = configured.next().map(|(_, name)| name.clone());
        let address = device.info().ok().and_then(|info| info.pci_address);
        let switch = configured.or_else(|| switch_of(&address?));
        let to_device = rates.iter().filter(|((to, _), _)| to == id);
        let links = DeviceLinks {
            from_host: *from_host,
            switch,
            from_devices: to_device
                .map(|((_, from), rate)| (*from, Some(*rate)))
                .collect(),
        };
        server.set_links(*id, links);
        if let Some(rate) = from_host {
            server.set_light_bytes(*id, light_bytes(*rate, config.light_ms));
        }
    }
}

/// Length in bytes of what a link of this rate, in bytes per second, copies in `ms` milliseconds.
fn light_bytes(rate: u64, ms: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(ms) / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tetris_gpu_device::host::HostDevice;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_model_is_light_by_the_rate_of_the_link() {
        assert_eq!(light_bytes(25_000_000_000, 20), 500_000_000);
        assert_eq!(light_bytes(12_000_000_000, 20), 240_000_000);
        assert_eq!(light_bytes(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(light_bytes(25_000_000_000, 0), 0);
    }

    #[test]
    fn a_measurement_gives_everything_back() {
        let devices = [0, 1].map(|number| HostDevice::numbered(number, 1, 64 * MIB));
        let measured = rate(&devices[0], &devices[1], 16 * MIB).unwrap();
        assert!(measured.is_some_and(|rate| rate > 0));
        for device in &devices {
            assert_eq!(device.info().unwrap().free_bytes, 64 * MIB);
        }
        let alone = HostDevice::numbered(2, 0, 64 * MIB);
        assert_eq!(rate(&devices[0], &alone, 16 * MIB).unwrap(), None);
        assert_eq!(rate(&devices[0], &devices[1], MIB).unwrap(), None);
    }
}
