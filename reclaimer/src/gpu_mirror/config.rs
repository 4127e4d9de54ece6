//! The table `[gpu_mirror]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::{DEFAULT_KEEP_PINNED, DEFAULT_TTFT, Limits};

use crate::store::OpenStore;

/// Kind of the GPU mirror's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// The devices of NVIDIA's driver.
    #[default]
    Cuda,
    /// Simulated devices in host memory, for tests and trials without a GPU: one, or as many as `devices`
    /// has numbers.
    Simulated,
}

impl Implementation {
    /// Its name in the configuration and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Simulated => "simulated",
        }
    }
}

/// The table `[gpu_mirror]`: one copy of each tensor in device memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuMirrorConfig {
    /// Kind of the devices.
    #[serde(default)]
    pub implementation: Implementation,
    /// Memory of each device for the GPU mirror, in bytes; never more than is free when the daemon
    /// starts.
    #[serde(with = "tetris_units::size")]
    pub device_bytes: u64,
    /// Memory of each device for one store, in bytes; without it, all of the GPU mirror's.
    #[serde(default, with = "tetris_units::size::optional")]
    pub store_bytes: Option<u64>,
    /// Numbers of devices, as the driver has them; all of them when empty.
    #[serde(default)]
    pub devices: Vec<u32>,
    /// The length that chunks of device memory are made up to, in bytes: a multiple of 2 MiB.
    #[serde(default = "default_chunk_bytes", with = "tetris_units::size")]
    pub chunk_bytes: u64,
    /// The folder of the sockets, each of which has its store's name; without it a store's socket
    /// is `gpu` in the store.
    #[serde(default)]
    pub socket_dir: Option<PathBuf>,
    /// Size of groups of copies, in bytes; by default calibrated on each device at the start.
    #[serde(default, with = "tetris_units::size::optional")]
    pub group_bytes: Option<u64>,
    /// Bytes of chunks of each device that exist ahead of need: created at the start, and anew by a thread
    /// aside. With 0 each chunk is created when a client waits for it.
    #[serde(default, with = "tetris_units::size")]
    pub spare_bytes: u64,
    /// Milliseconds up to which the copy of a light model takes over the device's link. Light models are
    /// evicted first, because an inference hides their way back.
    #[serde(
        default = "default_light_ms",
        with = "tetris_units::duration::milliseconds"
    )]
    pub light_ms: u64,
    /// Rate of each device's link from the host, in bytes per second; by default measured at the start.
    #[serde(default, with = "tetris_units::size::optional")]
    pub link_bytes_per_sec: Option<u64>,
    /// Names of the switches between the devices and the host, one for each device in their order; the
    /// kernel is asked for them when empty.
    #[serde(default)]
    pub switches: Vec<String>,
    /// True if objects that another device has come from there, where a link joins the two that was
    /// measured to be faster than that from the host.
    #[serde(default = "default_copy_across")]
    pub copy_across: bool,
    /// Bytes of the stores' pages registered with the driver at a time, for each device.
    /// With 0, and beyond it, copies go through pinned buffers, as a first load does.
    #[serde(default = "default_pinned_bytes", with = "tetris_units::size")]
    pub pinned_bytes: u64,
    /// Seconds that pages stay registered after their last use, and cannot be freed unless the
    /// store needs the room; 0: none are registered.
    #[serde(
        default = "default_pinned_secs",
        with = "tetris_units::duration::seconds"
    )]
    pub pinned_secs: u64,
    /// True if pages of the stores become writable for the moment of their registration, for
    /// devices that register no read-only pages. With `false` the daemon opens no object for
    /// writing, and copies to such devices go through pinned buffers.
    #[serde(default = "default_writable_registration")]
    pub writable_registration: bool,
    /// Bytes that are read back from each device per second, to check them against the objects'
    /// names; 0: none.
    #[serde(default = "default_check_bytes", with = "tetris_units::size")]
    pub check_bytes_per_sec: u64,
    /// Bytes of each device for prefixes of models that clients asked to keep there, so that the rest
    /// arrives while a model runs; 0: none are kept.
    #[serde(default, with = "tetris_units::size")]
    pub template_bytes: u64,
    /// Milliseconds to the first token of a model on the device, where its clients have measured
    /// none: the longer, the shorter its prefix.
    #[serde(default = "default_template_ttft_ms")]
    pub template_ttft_ms: u64,
    /// Streams that copy to a device.
    #[serde(default = "default_streams")]
    pub streams: usize,
    /// Connections of clients, over all stores. A process has one for each 16 files of a model that
    /// it holds.
    #[serde(default = "default_connections")]
    pub connections: usize,
    /// Those of one user to one store.
    #[serde(default = "default_connections_per_user")]
    pub connections_per_user: usize,
}

/// Whole models of the sizes that devices have. The pages are those of the store, so it costs no
/// memory: pages that are registered cannot be freed meanwhile, and are given up when the store
/// needs the room.
const DEFAULT_PINNED_BYTES: u64 = 16 << 30;
/// One copy engine is kept busy by one stream while the other one's next copy is prepared.
const DEFAULT_STREAMS: usize = 2;

fn default_chunk_bytes() -> u64 {
    ArenaConfig::default().chunk_bytes()
}

fn default_pinned_bytes() -> u64 {
    DEFAULT_PINNED_BYTES
}

fn default_pinned_secs() -> u64 {
    DEFAULT_KEEP_PINNED.as_secs()
}

/// About one inference of the models of Torpor's table 4.
fn default_light_ms() -> u64 {
    20
}

fn default_copy_across() -> bool {
    true
}

fn default_writable_registration() -> bool {
    true
}

/// An hour for 14 GB.
fn default_check_bytes() -> u64 {
    4 << 20
}

fn default_template_ttft_ms() -> u64 {
    u64::try_from(DEFAULT_TTFT.as_millis()).unwrap_or(u64::MAX)
}

fn default_streams() -> usize {
    DEFAULT_STREAMS
}

fn default_connections() -> usize {
    Limits::default().connections
}

fn default_connections_per_user() -> usize {
    Limits::default().connections_of_user
}

impl GpuMirrorConfig {
    /// The sizes of arenas, if they go together.
    pub(super) fn arena(&self) -> Option<ArenaConfig> {
        let standard = ArenaConfig::default();
        let arena = ArenaConfig::try_new(
            standard.granule_bytes(),
            self.chunk_bytes,
            standard.align_bytes(),
            standard.waste_percent(),
        );
        arena.ok().filter(|arena| arena.chunk_bytes() <= 16 << 30)
    }

    /// Limits of clients.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            connections: self.connections,
            connections_of_user: self.connections_per_user,
            ..Limits::default()
        }
    }

    /// Path of a store's socket.
    pub(super) fn socket(&self, store: &OpenStore) -> PathBuf {
        match &self.socket_dir {
            Some(folder) => folder.join(&store.name),
            None => store.root.join("gpu"),
        }
    }

    /// Fields in which `new` differs and that a running mirror cannot change. `store_bytes`,
    /// `connections` and `connections_per_user` are none of them.
    fn fixed(&self, new: &Self) -> Vec<&'static str> {
        let fields = [
            ("implementation", self.implementation == new.implementation),
            ("device_bytes", self.device_bytes == new.device_bytes),
            ("devices", self.devices == new.devices),
            ("chunk_bytes", self.chunk_bytes == new.chunk_bytes),
            ("socket_dir", self.socket_dir == new.socket_dir),
            ("group_bytes", self.group_bytes == new.group_bytes),
            ("spare_bytes", self.spare_bytes == new.spare_bytes),
            ("light_ms", self.light_ms == new.light_ms),
            (
                "link_bytes_per_sec",
                self.link_bytes_per_sec == new.link_bytes_per_sec,
            ),
            ("switches", self.switches == new.switches),
            ("copy_across", self.copy_across == new.copy_across),
            ("pinned_bytes", self.pinned_bytes == new.pinned_bytes),
            ("pinned_secs", self.pinned_secs == new.pinned_secs),
            (
                "writable_registration",
                self.writable_registration == new.writable_registration,
            ),
            (
                "check_bytes_per_sec",
                self.check_bytes_per_sec == new.check_bytes_per_sec,
            ),
            ("template_bytes", self.template_bytes == new.template_bytes),
            (
                "template_ttft_ms",
                self.template_ttft_ms == new.template_ttft_ms,
            ),
            ("streams", self.streams == new.streams),
        ];
        let changed = fields.into_iter().filter(|(_, same)| !same);
        changed.map(|(field, _)| field).collect()
    }
}

/// Changes of a new table that need a restart: fields, or `gpu_mirror` for the whole table.
pub fn needs_restart(
    old: Option<&GpuMirrorConfig>,
    new: Option<&GpuMirrorConfig>,
) -> Option<String> {
    match (old, new) {
        (None, None) => None,
        (Some(old), Some(new)) => {
            let fields = old.fixed(new);
            let named = fields.iter().map(|field| format!("gpu_mirror.{field}"));
            let named: Vec<_> = named.collect();
            (!named.is_empty()).then(|| named.join(", "))
        }
        _ => Some("gpu_mirror".to_owned()),
    }
}
