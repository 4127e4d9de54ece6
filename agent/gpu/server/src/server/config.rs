//! Configuration of the server.

use std::time::Duration;

use super::ServerError;
use crate::copy::ExecutorConfig;
use crate::residency;

/// Default of [`ServerConfig::keep_pinned`]: models that take turns on a device come back within
/// seconds, and a store that needs the room earlier gets it ([`super::Server::unpin`]).
pub const DEFAULT_KEEP_PINNED: Duration = Duration::from_mins(1);

/// Default of [`ServerConfig::memory_patience`]: the driver frees the memory of a killed process some
/// tenths of a second to seconds after its end.
pub const DEFAULT_MEMORY_PATIENCE: Duration = Duration::from_secs(4);

/// Default of [`TemplateConfig::ttft`]: about an inference of 2,048 tokens with a model of 8 billion
/// parameters in TIDAL's figure 17.
pub const DEFAULT_TTFT: Duration = Duration::from_millis(500);

/// Limits of clients' use of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections of one user to one tenant's socket.
    pub connections_of_user: usize,
    /// Time limit for a whole message, for a client to receive an answer, and for a connection
    /// without a model to send a message.
    pub message_timeout: Duration,
    /// Maximum wait for room, regardless of a client's request.
    pub longest_wait: Duration,
    /// Interval of `Waiting` messages to a waiting client.
    pub keepalive: Duration,
    /// Maximum number of objects that models have mapped while they wait or are copied.
    pub mapped_objects: usize,
    /// Maximum number of objects of all models that clients hold or ask for, each counted for each client.
    pub held_objects: usize,
}

impl Default for Limits {
    /// A process has a connection for each 16 files of its model. So 64 processes of one user that
    /// load 30 files each, and load again before the first model is released, have 256. Four such
    /// users, or one in each of four stores, make 1,024. Each connection is a thread, three
    /// descriptors, and at most a frame of 64 KiB.
    ///
    /// Mapped objects take three quarters of the mappings that a process has by default (`vm.max_map_count`). The
    /// records of a held object take some 250 bytes, so all of them take 256 MiB.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_of_user: 256,
            message_timeout: Duration::from_secs(30),
            longest_wait: Duration::from_mins(5),
            keepalive: Duration::from_secs(1),
            mapped_objects: 49_152,
            held_objects: 1 << 20,
        }
    }
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), ServerError> {
        let count = |limit: usize| limit > 0 && limit <= 65_536;
        let time = |limit: Duration| !limit.is_zero() && limit <= Duration::from_hours(24);
        let rules = [
            (count(self.connections), "1 to 65536 connections"),
            (
                count(self.connections_of_user),
                "1 to 65536 connections of a user",
            ),
            (
                time(self.message_timeout),
                "a timeout for messages of at most a day",
            ),
            (time(self.longest_wait), "a longest wait of at most a day"),
            (time(self.keepalive), "a keepalive of at most a day"),
            (
                self.mapped_objects > 0 && self.held_objects > 0,
                "1 mapped and held object or more",
            ),
        ];
        let broken = rules.into_iter().find(|(fine, _)| !fine);
        broken.map_or(Ok(()), |(_, expected)| {
            Err(ServerError::Limits { expected })
        })
    }
}

/// Parameters of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateConfig {
    /// Maximum length of all kept prefixes on a device, in bytes; objects of several count once.
    /// Zero: none are kept.
    pub budget_bytes: u64,
    /// Time to the first token of a model whose client has not measured one.
    pub ttft: Duration,
}

impl Default for TemplateConfig {
    fn default() -> Self {
        Self {
            budget_bytes: 0,
            ttft: DEFAULT_TTFT,
        }
    }
}

/// Configuration of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerConfig {
    /// Residency policy of the devices.
    pub residency: residency::Config,
    /// Parameters of copies.
    pub executor: ExecutorConfig,
    /// Limits of clients.
    pub limits: Limits,
    /// Time that the store's pages stay registered with the driver, and so referenced, after their
    /// last use. Zero: the server registers none, because it registers after a load, for the next.
    pub keep_pinned: Duration,
    /// True if the server opens objects for writing for a device that registers no read-only pages,
    /// and makes their pages writable while the driver registers them. It writes nothing. Otherwise
    /// copies to such a device go through pinned buffers.
    pub writable_registration: bool,
    /// Time for which a chunk is asked for anew when the device has no memory for it, before idle
    /// models leave, and again before the load is refused.
    pub memory_patience: Duration,
    /// Length of the chunks of each device that exist ahead of need, in bytes: they are created when
    /// the server starts, and anew by a thread aside. Zero: none, and each chunk is created when a
    /// client waits for it. Otherwise chunks have their full length, so that one fits for another.
    pub spare_bytes: u64,
    /// Bytes that each device's thread reads back per second, to check them against the objects'
    /// names. Zero: none.
    pub check_bytes_per_sec: u64,
    /// Parameters of templates.
    pub templates: TemplateConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            residency: residency::Config::default(),
            executor: ExecutorConfig::default(),
            limits: Limits::default(),
            keep_pinned: DEFAULT_KEEP_PINNED,
            writable_registration: true,
            memory_patience: DEFAULT_MEMORY_PATIENCE,
            spare_bytes: 0,
            check_bytes_per_sec: 0,
            templates: TemplateConfig::default(),
        }
    }
}
