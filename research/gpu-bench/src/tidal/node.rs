//! A node: a store, and a server over simulated devices with injected links.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tetris_gpu_client::{Acquired, Client, Wanted};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::{HostDevice, LinkCosts};
use tetris_gpu_protocol::Kept;
use tetris_gpu_server::residency::{self, DeviceId, TenantId};
use tetris_gpu_server::{ServedDevice, Server, ServerConfig, TemplateConfig};
use tetris_store_layout::{CreateOptions, Store};

use crate::BenchError;
use crate::model::{BenchModel, make, shapes};
use crate::role::serve::{arena, executor};
use crate::timeout::LONG;

/// Length of a chunk, so large that the model's tensors, of up to 12 MiB, fill chunks with little waste.
const CHUNK_BYTES: u64 = 16 << 20;
const GROUP_BYTES: u64 = 256 << 10;

/// A store with a model, and as many other bytes that take its place on a device.
pub struct Models {
    directory: TempDir,
    store: Arc<Store>,
    pub model: BenchModel,
    filler: BenchModel,
}

impl Models {
    /// Publishes a model of `bytes` bytes, with tensors in the proportions of a Llama.
    pub fn new(parent: &Path, bytes: u64) -> Result<Self, BenchError> {
        let directory = tempfile::tempdir_in(parent).map_err(BenchError::io("create", parent))?;
        let path = directory.path().join("store");
        let store = Arc::new(Store::create(&path, &CreateOptions::default())?);
        // One list, so that no tensor of the filler has the bytes of another.
        let shapes_once = shapes(bytes);
        let twice: Vec<_> = shapes_once.iter().chain(&shapes_once).cloned().collect();
        let mut both = make(&store, &twice, &|_| {})?;
        let filler = BenchModel {
            tensors: both.tensors.split_off(shapes_once.len()),
        };
        Ok(Self {
            directory,
            store,
            model: both,
            filler,
        })
    }

    fn socket(&self, device: usize) -> PathBuf {
        self.directory.path().join(format!("gpu-{device}"))
    }
}

/// Servers, one for each device, whose links do not disturb each other.
pub struct Node<'a> {
    models: &'a Models,
    servers: Vec<Server<HostDevice>>,
}

impl<'a> Node<'a> {
    /// Starts `devices` servers with room for the model and links of `bytes_per_sec`.
    pub fn new(models: &'a Models, devices: usize, bytes_per_sec: u64) -> Result<Self, BenchError> {
        let room = models.model.bytes().next_multiple_of(CHUNK_BYTES) + 2 * CHUNK_BYTES;
        let serve = |number: usize| {
            let costs = LinkCosts {
                bytes_per_sec,
                each: Duration::ZERO,
            };
            let config = ServerConfig {
                residency: residency::Config {
                    arena: arena(CHUNK_BYTES)?,
                    ..residency::Config::default()
                },
                executor: executor(GROUP_BYTES, 0)?,
                templates: TemplateConfig {
                    budget_bytes: u64::MAX,
                    ..TemplateConfig::default()
                },
                // Chunks exist beforehand, as in the paper: creating them would take time of every start.
                spare_bytes: room,
                ..ServerConfig::default()
            };
            let device = ServedDevice {
                id: DeviceId(0),
                device: Arc::new(HostDevice::with_link(room, costs)),
                capacity_bytes: room,
            };
            let server = Server::start(vec![device], &config)?;
            let store = Arc::clone(&models.store);
            server.serve(TenantId(0), store, None, &models.socket(number))?;
            Ok(server)
        };
        let servers: Result<_, BenchError> = (0..devices).map(serve).collect();
        Ok(Self {
            models,
            servers: servers?,
        })
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.servers.len()
    }

    /// Requests the model on a device, to be copied in this order.
    pub fn acquire(
        &self,
        device: usize,
        order: &[u32],
    ) -> Result<Acquired<HostDevice>, BenchError> {
        self.request(device, &self.models.model, order)
    }

    fn request(
        &self,
        device: usize,
        model: &BenchModel,
        order: &[u32],
    ) -> Result<Acquired<HostDevice>, BenchError> {
        let wanted = Wanted {
            wait: LONG,
            order: order.to_vec(),
            ..Wanted::new(model.wanted())
        };
        let client = Client::connect(&self.models.socket(device), MemoryKind::Host, LONG)?;
        Ok(client.acquire(Arc::new(HostDevice::new(0)), &wanted, &mut |_| {})?)
    }

    /// Has every device keep a prefix of the model, for a warm time to the first token and at most
    /// `most_bytes`. Returns the answer of the first one.
    pub fn keep(&self, ttft: Duration, most_bytes: u64) -> Result<Kept, BenchError> {
        let mut first = None;
        for device in 0..self.devices() {
            let acquired = self.acquire(device, &[])?;
            acquired.wait_all(LONG)?;
            let kept = acquired.keep(ttft, most_bytes)?;
            acquired.release()?;
            first.get_or_insert(kept);
        }
        Ok(first.unwrap_or_default())
    }

    /// Has other bytes take the room of the model beside its prefix.
    pub fn push_out(&self) -> Result<(), BenchError> {
        for (device, server) in self.servers.iter().enumerate() {
            let usage = server.usage(DeviceId(0)).unwrap_or_default();
            let room = usage.capacity_bytes.saturating_sub(usage.kept_bytes);
            // More than the room beside the whole model: all of it that is not kept leaves.
            let other = self.models.filler.beginning(4 * CHUNK_BYTES);
            if room < other.bytes() + 2 * CHUNK_BYTES {
                continue;
            }
            let acquired = self.request(device, &other, &[])?;
            acquired.wait_all(LONG)?;
            acquired.release()?;
        }
        Ok(())
    }

    /// The model.
    pub fn model(&self) -> &BenchModel {
        &self.models.model
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.models.store
    }
}
