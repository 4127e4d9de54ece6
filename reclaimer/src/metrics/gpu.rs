//! The GPU mirror. A device is named by its UUID, as `nvidia-smi -L` prints it.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use tetris_gpu_device::DeviceMode;
use tetris_gpu_server::{Counters, DeviceReport, TenantReport};

use super::families::{Families, Labels};
use crate::gpu_mirror::GpuMirrorStatus;

/// The mirror's status as metrics.
#[derive(Debug)]
pub(super) struct GpuMirrorMetrics(pub GpuMirrorStatus);

impl Collector for GpuMirrorMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Families(encoder);
        mirror(&mut out, &self.0)?;
        devices(&mut out, &self.0.report.devices)?;
        stores(&mut out, &self.0)?;
        models(&mut out, &self.0.report.counters)?;
        connections(&mut out, &self.0.report.counters)?;
        transfers(&mut out, &self.0.report.counters)
    }
}

fn mirror(out: &mut Families<'_>, status: &GpuMirrorStatus) -> fmt::Result {
    let implementation = status.implementation.name();
    let help = "1 when the GPU mirror serves; 0 when it is configured and has no driver or device, its driver hangs, or its process does not answer";
    let labels = vec![("implementation", implementation)];
    out.family(
        "gpu_mirror_up",
        None,
        help,
        [(labels, u64::from(status.running))],
    )?;
    let help = "Devices that could not be used when the daemon started";
    out.one(
        "gpu_missing_devices",
        None,
        help,
        status.missing_devices as u64,
    )?;
    let help = "Connections of the GPU mirror's clients";
    out.one(
        "gpu_connections",
        None,
        help,
        status.report.connections as u64,
    )
}

/// A gauge of devices: its name, whether it is in bytes, its help, and its value.
type OfDevice = (&'static str, bool, &'static str, fn(&DeviceReport) -> u64);

#[rustfmt::skip]
const OF_DEVICES: [OfDevice; 25] = [
    ("gpu_device_up", false, "0 when the device was lost: nothing is copied to it until the daemon is restarted", |d| u64::from(d.lost.is_none())),
    ("gpu_device_exclusive", false, "1 when the device was in compute mode EXCLUSIVE_PROCESS at the start: no client can open it", |d| u64::from(d.mode == DeviceMode::Exclusive)),
    ("gpu_device_mps", false, "1 when the GPU mirror was a client of MPS at the start: one client's fault ends every model on the device", |d| u64::from(d.mode == DeviceMode::Mps)),
    ("gpu_limit", true, "Device memory that the configuration gives to the GPU mirror", |d| d.limit_bytes),
    ("gpu_capacity", true, "Device memory that the GPU mirror may take at the moment: its limit, or less while other programs have the memory", |d| d.usage.capacity_bytes),
    ("gpu_chunks", true, "Device memory that the GPU mirror has taken", |d| d.usage.created_bytes),
    ("gpu_lingering", true, "Device memory that the GPU mirror has released and that processes keep: it is free when they end", |d| d.usage.lingering_bytes),
    ("gpu_objects", true, "Device memory that the GPU mirror has taken, with an object in it", |d| d.usage.live_bytes),
    ("gpu_waste", true, "Device memory that the GPU mirror has taken, without an object in it", |d| d.usage.created_bytes.saturating_sub(d.usage.live_bytes).saturating_sub(d.usage.lingering_bytes)),
    ("gpu_held", true, "Objects that clients hold or that are being copied", |d| d.usage.held_bytes),
    ("gpu_templates", false, "Models of which clients asked to keep a prefix on the device", |d| d.templates.len() as u64),
    ("gpu_template_wanted", true, "Prefixes that hide the copies of the rest, by the measured bandwidth and times to the first token", |d| d.templates.iter().map(|t| t.wanted_bytes).sum()),
    ("gpu_template_kept", true, "Objects of kept prefixes on the device, each once", |d| d.usage.kept_bytes),
    ("gpu_transfer_bytes_per_second", false, "Median rate of recent long transfers to the device, by which prefixes are sized; 0 before the first", |d| d.transfer_bytes_per_sec.unwrap_or(0)),
    ("gpu_models", false, "Models with objects on the device", |d| d.usage.models as u64),
    ("gpu_held_models", false, "Models on the device that clients hold", |d| d.usage.held_models as u64),
    ("gpu_leases", false, "Connections that hold a model on the device", |d| d.leases as u64),
    ("gpu_group", true, "Size of groups of copies to the device, configured or calibrated", |d| d.group_bytes),
    ("gpu_spare", true, "Device memory that the GPU mirror has taken ahead of need; it counts as free", |d| d.spare_bytes),
    ("gpu_transfer", true, "Objects on their way to the device", |d| d.transfer_bytes),
    ("gpu_light", true, "Length up to which a model is light, and leaves the device first", |d| d.light_bytes),
    ("gpu_link_bytes_per_second", false, "Rate of the link from the host, configured or measured when the daemon started; 0 if it is not known", |d| d.link_bytes_per_sec.unwrap_or(0)),
    ("gpu_pinned", true, "Pages of the stores that are registered with the driver for copies to the device; they count as referenced", |d| d.pinned_bytes),
    ("gpu_registration_refused", false, "1 when the driver refused the last registration of pages: copies go through pinned buffers, and the status of the GPU mirror says why", |d| u64::from(d.unregistered.is_some())),
    ("gpu_unanswered_check_seconds", false, "Seconds for which a device has not answered a check: copies keep it busy, or its driver hangs", |d| d.unanswered_ms.unwrap_or(0) / 1000),
];

fn devices(out: &mut Families<'_>, devices: &[DeviceReport]) -> fmt::Result {
    let names = devices.iter().map(|device| device.uuid.to_string());
    let names: Vec<_> = names.collect();
    for (name, bytes, help, of) in OF_DEVICES {
        let values = devices.iter().map(of);
        let labels = names.iter().map(|name| vec![("device", name.as_str())]);
        let unit = bytes.then_some(&Unit::Bytes);
        out.family(name, unit, help, labels.zip(values))?;
    }
    Ok(())
}

fn stores(out: &mut Families<'_>, status: &GpuMirrorStatus) -> fmt::Result {
    let named = |tenant: &TenantReport| status.stores.get(&tenant.tenant).map(String::as_str);
    let tenants = status.report.tenants.iter();
    let tenants: Vec<_> = tenants
        .filter_map(|tenant| Some((named(tenant)?, tenant)))
        .collect();
    let waiting = tenants.iter();
    let waiting = waiting.map(|(name, tenant)| (vec![("store", *name)], tenant.waiting as u64));
    let help = "Connections that wait for room for a model";
    out.family("gpu_waiting", None, help, waiting)?;
    let quotas = tenants.iter();
    let quotas =
        quotas.filter_map(|(name, quota)| Some((vec![("store", *name)], quota.quota_bytes?)));
    let help = "Device memory that a store may take on each device; absent without a quota";
    out.family("gpu_store_quota", Some(&Unit::Bytes), help, quotas)?;
    let taken = tenants.iter().flat_map(|(name, tenant)| {
        let chunks = tenant.chunk_bytes.iter();
        chunks.map(|(device, bytes)| (*name, device.to_string(), *bytes))
    });
    let taken: Vec<_> = taken.collect();
    let taken = taken.iter().map(|(store, device, bytes)| {
        let labels: Labels<'_> = vec![("store", store), ("device", device)];
        (labels, *bytes)
    });
    let help = "Device memory that a store has taken";
    out.family("gpu_store", Some(&Unit::Bytes), help, taken)
}

/// A counter without labels: its name, its help, and its value.
type Plain = (&'static str, &'static str, fn(&Counters) -> u64);

fn plain(out: &mut Families<'_>, counters: &Counters, all: &[Plain]) -> fmt::Result {
    for (name, help, of) in all {
        out.counters(name, None, help, [(Labels::new(), of(counters))])?;
    }
    Ok(())
}

#[rustfmt::skip]
fn models(out: &mut Families<'_>, counters: &Counters) -> fmt::Result {
    plain(out, counters, &[
        ("gpu_requested_models", "Models that clients asked for", |c| c.acquires),
        ("gpu_prefetched_models", "Models that clients asked for ahead of their use, without their memory", |c| c.prefetches),
        ("gpu_admitted_models", "Models that clients were given", |c| c.admitted),
        ("gpu_resident_models", "Models that clients were given and that were wholly on the device already", |c| c.resident),
        ("gpu_waited_models", "Models that had to wait for room", |c| c.waited),
        ("gpu_released_models", "Models that clients gave back, by message or by hanging up", |c| c.released),
        ("gpu_evicted_models", "Models that left a device for others", |c| c.evicted),
        ("gpu_yielded_models", "Models that left a device because other programs had its memory", |c| c.yielded),
        ("gpu_dropped_objects", "Idle objects that left a device to close holes", |c| c.dropped_objects),
    ])?;
    let others = counters.refused.saturating_sub(counters.refused_no_room);
    let reasons = [("no-room", counters.refused_no_room), ("other", others)];
    let reasons = reasons.map(|(reason, count)| (vec![("reason", reason)], count));
    let help = "Models that were refused: for want of device memory or by a quota, or for another reason";
    out.counters("gpu_refused_models", None, help, reasons)
}

#[rustfmt::skip]
fn connections(out: &mut Families<'_>, counters: &Counters) -> fmt::Result {
    plain(out, counters, &[
        ("gpu_accepted_connections", "Connections that were served", |c| c.connections_accepted),
        ("gpu_refused_connections", "Connections that were closed at once, because there were too many", |c| c.connections_refused),
        ("gpu_broken_connections", "Connections that ended because the client broke the protocol or stalled", |c| c.connections_broken),
        ("gpu_untracked_connections", "Connections whose process the kernel does not tell: memory that it keeps counts as free", |c| c.untracked_connections),
    ])
}

#[rustfmt::skip]
fn transfers(out: &mut Families<'_>, counters: &Counters) -> fmt::Result {
    let paths = [("direct", counters.direct_bytes), ("staged", counters.staged_bytes), ("across", counters.across_bytes)];
    let paths = paths.map(|(path, bytes)| (vec![("path", path)], bytes));
    let help = "Bytes copied to devices: from the store's own pages, through pinned buffers, or from other devices";
    out.counters("gpu_copied", Some(&Unit::Bytes), help, paths)?;
    let help = "Bytes of new pieces of device memory that were set to zero before a client got them";
    let cleared = [(Labels::new(), counters.cleared_bytes)];
    out.counters("gpu_cleared", Some(&Unit::Bytes), help, cleared)?;
    let help = "Bytes that were read back from devices to check objects";
    let checked = [(Labels::new(), counters.checked_bytes)];
    out.counters("gpu_checked", Some(&Unit::Bytes), help, checked)?;
    plain(out, counters, &[
        ("gpu_copied_objects", "Objects that arrived on a device", |c| c.copied_objects),
        ("gpu_prefetched_objects", "Objects of kept prefixes that were copied without a client that waits for them", |c| c.prefetched_objects),
        ("gpu_registrations", "Pieces of stores' mappings, of up to 64 MiB, that were registered with the driver", |c| c.registrations),
        ("gpu_reused_registrations", "Registered pieces that a transfer used after an earlier one", |c| c.reused_registrations),
        ("gpu_failed_copies_across", "Attempts to copy from another device that failed: the objects came from the host", |c| c.failed_across),
        ("gpu_failed_transfers", "Transfers that failed", |c| c.failed_transfers),
        ("gpu_skipped_transfers", "Transfers that no client wanted any more at their turn", |c| c.skipped_transfers),
        ("gpu_retried_chunks", "Times that a piece of device memory was asked for anew, because the device had none", |c| c.retried_chunks),
        ("gpu_created_chunks", "Pieces of device memory that were created", |c| c.chunks_created),
        ("gpu_awaited_chunks", "Pieces of device memory that were created while a client waited for them", |c| c.awaited_chunks),
        ("gpu_used_spares", "Pieces of device memory, taken ahead of need, that models got", |c| c.spares_used),
        ("gpu_exported_chunks", "Pieces of device memory that were handed to clients", |c| c.chunks_exported),
        ("gpu_checked_objects", "Objects that were read back from devices and compared with their names", |c| c.checked_objects),
        ("gpu_damaged_objects", "Objects that were found to have other bytes on a device than their names say, and dropped there", |c| c.damaged_objects),
    ])
}
