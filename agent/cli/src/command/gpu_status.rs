//! `tetris gpu-status`: the contents of device memory in the node's GPU mirror.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::{Value, json};
use tetris_agent::device::SOCKET_ENV;
use tetris_agent::store_location::StoreLocation;
use tetris_gpu_client::{Client, ClientError};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_protocol::{DeviceEntry, DeviceStatus, StatusReport};
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
use super::loading::lossy;
use super::output::Output;
use super::table::{Side, Table};

/// The mirror answers at once; one that does not is stuck.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `gpu-status`.
#[derive(Debug, Args)]
pub(crate) struct GpuStatusArgs {
    /// Socket of the mirror [default: `gpu` in the store]
    #[arg(
        long,
        env = SOCKET_ENV,
        hide_env_values = true,
        value_name = "PATH",
        value_parser = OsStringValueParser::new().map(PathBuf::from),
    )]
    socket: Option<PathBuf>,
}

/// The status of a mirror, as it reports it.
struct Mirror {
    kind: MemoryKind,
    devices: Vec<(DeviceEntry, DeviceStatus)>,
    report: StatusReport,
}

/// Runs `gpu-status`.
pub(crate) fn run(args: &GpuStatusArgs, location: &StoreLocation, out: &mut Output) -> Result {
    // An empty name counts as none, as for the store's.
    let named = args.socket.clone();
    let named = named.filter(|path| !path.as_os_str().is_empty());
    let socket = named.unwrap_or_else(|| location.dir.join("gpu"));
    let mirror = ask(&socket).map_err(|error| Error::new(Code::Failed, error))?;
    if out.is_json() {
        return out.json(&document(&socket, &mirror));
    }
    out.fields(&fields(&socket, &mirror))?;
    out.line("")?;
    table(&mirror).print(out, "no devices")
}

fn ask(socket: &Path) -> std::result::Result<Mirror, ClientError> {
    let kinds = [
        MemoryKind::CudaDescriptors,
        MemoryKind::Host,
        MemoryKind::CudaHandles,
    ];
    let (mut client, kind) = Client::connect_any(socket, &kinds, TIMEOUT)?;
    let devices = client.devices()?;
    let report = client.status()?;
    let usage = |device: &DeviceEntry| {
        let mut all = report.devices.iter();
        all.find(|usage| usage.uuid == device.uuid).copied()
    };
    let devices = devices.into_iter();
    let devices = devices.filter_map(|device| usage(&device).map(|usage| (device, usage)));
    Ok(Mirror {
        kind,
        devices: devices.collect(),
        report,
    })
}

fn implementation(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::CudaDescriptors => "cuda",
        MemoryKind::CudaHandles => "cuda-ipc",
        MemoryKind::Host => "simulated",
    }
}

/// The mirror knows nothing any more of a device that it has lost.
fn works(device: &DeviceEntry) -> bool {
    device.total_bytes > 0
}

fn document(socket: &Path, mirror: &Mirror) -> Value {
    let device = |(device, usage): &(DeviceEntry, DeviceStatus)| {
        json!({
            "number": device.number,
            "uuid": device.uuid.to_string(),
            "name": device.name,
            "works": works(device),
            "total_bytes": device.total_bytes,
            "free_bytes": device.free_bytes,
            "capacity_bytes": usage.capacity_bytes,
            "chunk_bytes": usage.created_bytes,
            "object_bytes": usage.live_bytes,
            "held_bytes": usage.held_bytes,
            "models": usage.models,
            "held_models": usage.held_models,
        })
    };
    json!({
        "socket": lossy(socket),
        "implementation": implementation(mirror.kind),
        "connections": mirror.report.connections,
        "holding": mirror.report.leases,
        "waiting": mirror.report.waiting,
        "devices": mirror.devices.iter().map(device).collect::<Vec<_>>(),
    })
}

fn fields(socket: &Path, mirror: &Mirror) -> Vec<(&'static str, String)> {
    let report = &mirror.report;
    let connections = format!(
        "{}, {} hold a model, {} wait for room",
        report.connections, report.leases, report.waiting
    );
    vec![
        ("socket", socket.display().to_string()),
        ("implementation", implementation(mirror.kind).to_owned()),
        ("connections", connections),
    ]
}

fn table(mirror: &Mirror) -> Table {
    let mut table = Table::new(&[
        ("DEVICE", Side::Right),
        ("UUID", Side::Left),
        ("NAME", Side::Left),
        ("FREE", Side::Right),
        ("CAPACITY", Side::Right),
        ("TAKEN", Side::Right),
        ("HELD", Side::Right),
        ("MODELS", Side::Right),
        ("HELD MODELS", Side::Right),
    ]);
    for (device, usage) in &mirror.devices {
        let free = if works(device) {
            Bytes(device.free_bytes).to_string()
        } else {
            "lost".to_owned()
        };
        table.row([
            device.number.to_string(),
            device.uuid.to_string(),
            device.name.clone(),
            free,
            Bytes(usage.capacity_bytes).to_string(),
            Bytes(usage.created_bytes).to_string(),
            Bytes(usage.held_bytes).to_string(),
            usage.models.to_string(),
            usage.held_models.to_string(),
        ]);
    }
    table
}
