//! Configuration file: limits, timeouts, and functions with their endpoints.

mod callers;
mod check;
mod engines;
mod error;
mod fields;
mod gpu;
mod tls;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tetris_scaler::resources::{FieldProblem, ServedPaths};
use tetris_scaler_core::Slo;
use tetris_scaler_dispatch::Rules;
use tetris_units::{duration, size};

pub use callers::CallersConfig;
pub use engines::{EngineConfig, EngineGroupConfig};
pub use error::{ConfigError, ConfigProblem};
pub use gpu::{GpuFunctionConfig, GpuPoolConfig, PolicyConfig, SharingConfig};
pub use tls::TlsConfig;

/// Longest file in bytes: about a thousand functions. In memory a hostile one takes up to 640 times as much while it
/// is parsed, a third of the memory that the manifests give the gateway.
pub const MAX_CONFIG_BYTES: u64 = 256 << 10;
/// Longest message about a file, in characters: the library repeats the line with the mistake.
const MAX_MESSAGE_CHARS: usize = 500;

/// A configuration file, `gateway.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Config {
    /// Limits of clients.
    pub limits: Limits,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Rules of a cluster's functions.
    pub cluster: ClusterDefaults,
    /// TLS towards clients; plain without it.
    pub tls: Option<TlsConfig>,
    /// Callers of a cluster's functions.
    pub callers: CallersConfig,
    /// Functions by name; in a cluster there are none.
    pub function: BTreeMap<String, FunctionConfig>,
    /// Pools of GPUs by name, with their functions; in a cluster there are none.
    pub gpu_pool: BTreeMap<String, GpuPoolConfig>,
    /// Groups of engines that sleep, by name; in a cluster there are none.
    pub engine_group: BTreeMap<String, EngineGroupConfig>,
}

/// Limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of open connections of one address. Behind a load balancer all clients have
    /// one.
    pub connections_per_client: usize,
    /// Maximum number of requests at a time on one HTTP/2 connection. New connections get fewer while memory is short.
    pub streams: u32,
    /// Maximum number of header fields of a request or response.
    #[serde(rename = "headers")]
    pub header_fields: usize,
    /// Maximum size of a request's head, in bytes.
    #[serde(rename = "head", deserialize_with = "bytes")]
    pub head_bytes: usize,
    /// Maximum size of a request's body, in bytes.
    #[serde(rename = "body", deserialize_with = "bytes")]
    pub body_bytes: usize,
    /// Maximum size of all heads, buffers of connections and unread output in memory, in bytes. Without one, it follows
    /// from the container's memory limit.
    #[serde(rename = "heads", deserialize_with = "some_bytes")]
    pub heads_bytes: Option<usize>,
    /// Maximum size of all bodies in memory, in bytes. Without one, it follows from the container's memory limit.
    #[serde(rename = "bodies", deserialize_with = "some_bytes")]
    pub bodies_bytes: Option<usize>,
    /// Least number of bytes per second that a client sends of a body, or reads of a response, once it has used up the
    /// time that it may fall behind.
    #[serde(rename = "rate", deserialize_with = "size::deserialize")]
    pub bytes_per_second: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_client: 4_096,
            streams: 256,
            head_bytes: 32 << 10,
            body_bytes: 8 << 20,
            header_fields: 100,
            heads_bytes: None,
            bodies_bytes: None,
            bytes_per_second: 16 << 10,
        }
    }
}

/// Timeouts, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Timeouts {
    /// Longest time for a request's head, also of the wait for one on an idle connection.
    #[serde(rename = "head", with = "duration::milliseconds")]
    pub head_ms: u64,
    /// Longest time that a client may be behind the least rate with a request's body.
    #[serde(rename = "body", with = "duration::milliseconds")]
    pub body_ms: u64,
    /// Longest time that a client may be behind the least rate in reading a response.
    #[serde(rename = "read", with = "duration::milliseconds")]
    pub read_ms: u64,
    /// Longest time from a request's body to the end of its response.
    #[serde(rename = "request", with = "duration::milliseconds")]
    pub request_ms: u64,
    /// Longest time from a request to the head of its response.
    #[serde(rename = "response", with = "duration::milliseconds")]
    pub response_ms: u64,
    /// Longest pause within a response's body.
    #[serde(rename = "idle", with = "duration::milliseconds")]
    pub idle_ms: u64,
    /// Time for which a gateway that stops takes requests still, and asks clients to connect
    /// elsewhere.
    #[serde(rename = "farewell", with = "duration::milliseconds")]
    pub farewell_ms: u64,
    /// Longest time for requests to end after that.
    #[serde(rename = "stop", with = "duration::milliseconds")]
    pub stop_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head_ms: 60_000,
            body_ms: 30_000,
            read_ms: 30_000,
            request_ms: 3_600_000,
            response_ms: 300_000,
            idle_ms: 300_000,
            farewell_ms: 5_000,
            stop_ms: 60_000,
        }
    }
}

impl Timeouts {
    /// Longest time for a request's head.
    pub const fn head(&self) -> Duration {
        Duration::from_millis(self.head_ms)
    }

    /// Longest time behind the least rate with a request's body.
    pub const fn body(&self) -> Duration {
        Duration::from_millis(self.body_ms)
    }

    /// Longest time behind the least rate in reading a response.
    pub const fn read(&self) -> Duration {
        Duration::from_millis(self.read_ms)
    }

    /// Longest time from a request's body to the end of its response.
    pub const fn request(&self) -> Duration {
        Duration::from_millis(self.request_ms)
    }

    /// Longest time to the head of a response.
    pub const fn response(&self) -> Duration {
        Duration::from_millis(self.response_ms)
    }

    /// Longest pause within a response's body.
    pub const fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    /// Time for which a gateway that stops takes requests still.
    pub const fn farewell(&self) -> Duration {
        Duration::from_millis(self.farewell_ms)
    }

    /// Longest time for requests to end after the farewell.
    pub const fn stop(&self) -> Duration {
        Duration::from_millis(self.stop_ms)
    }
}

/// Rules of a cluster's functions, besides the objective, which their resources have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ClusterDefaults {
    /// Maximum number of waiting requests of each function.
    pub queue: usize,
    /// Longest time for which a request waits for an instance.
    #[serde(rename = "wait", with = "duration::milliseconds")]
    pub wait_ms: u64,
    /// True if a request is refused that would miss the objective.
    pub reject_late: bool,
    /// Time over which a new instance gets its full share.
    #[serde(rename = "slow_start", with = "duration::milliseconds")]
    pub slow_start_ms: u64,
}

impl Default for ClusterDefaults {
    fn default() -> Self {
        Self {
            queue: usual_queue(),
            wait_ms: usual_wait_ms(),
            reject_late: false,
            slow_start_ms: usual_slow_start_ms(),
        }
    }
}

impl ClusterDefaults {
    /// Rules of a function with this objective.
    pub(crate) fn rules(self, slo: Slo) -> Rules {
        let mut rules = Rules::new(slo);
        rules.queue = self.queue;
        rules.wait_us = self.wait_ms.saturating_mul(1_000);
        rules.reject_late = self.reject_late;
        rules.slow_start_us = self.slow_start_ms.saturating_mul(1_000);
        rules
    }
}

/// A function and its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FunctionConfig {
    /// Objective of its latency.
    #[serde(rename = "slo", with = "duration::milliseconds")]
    pub slo_ms: u64,
    /// Maximum number of waiting requests.
    #[serde(default = "usual_queue")]
    pub queue: usize,
    /// Longest time for which a request waits for an instance.
    #[serde(
        rename = "wait",
        with = "duration::milliseconds",
        default = "usual_wait_ms"
    )]
    pub wait_ms: u64,
    /// True if a request is refused that would miss the objective.
    #[serde(default)]
    pub reject_late: bool,
    /// Time over which a new instance gets its full share.
    #[serde(
        rename = "slow_start",
        with = "duration::milliseconds",
        default = "usual_slow_start_ms"
    )]
    pub slow_start_ms: u64,
    /// Hosts of requests for it.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Models of the Open Inference Protocol that it serves.
    #[serde(default)]
    pub models: Vec<String>,
    /// Paths that it serves.
    #[serde(default, deserialize_with = "fields::paths")]
    pub paths: ServedPaths,
    /// Its instances.
    #[serde(default)]
    pub instance: Vec<InstanceConfig>,
}

/// An instance of a function.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct InstanceConfig {
    /// Address of its server.
    pub address: SocketAddr,
    /// Maximum batch size.
    #[serde(default = "one")]
    pub batch: u32,
    /// Number of batches at a time.
    #[serde(default = "one")]
    pub concurrency: u32,
    /// Latency of one batch.
    #[serde(rename = "latency", with = "duration::milliseconds")]
    pub latency_ms: u64,
    /// Longest time for which it waits to fill a batch.
    #[serde(rename = "batch_wait", with = "duration::milliseconds", default)]
    pub batch_wait_ms: u64,
    /// True if it finishes its requests and gets no more.
    #[serde(default)]
    pub drain: bool,
}

impl Config {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or a field is unknown or out of range.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|problem| ConfigError::Wrong {
            path: path.to_owned(),
            problem,
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// The first mistake, with its line or field.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        if text.len() as u64 > MAX_CONFIG_BYTES {
            return Err(ConfigProblem::TooLong);
        }
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigProblem::Line(shown(error.to_string().trim_end())))?;
        check::check(&config)
            .map_err(|found| FieldProblem::new(shown(&found.field), shown(&found.problem)))?;
        Ok(config)
    }
}

/// Reads no more than shows that a file is too long.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The beginning of a message that repeats parts of the file.
fn shown(message: &str) -> String {
    let visible = |letter: char| match letter {
        '\n' => letter,
        control if control.is_control() => '\u{fffd}',
        letter => letter,
    };
    message
        .chars()
        .take(MAX_MESSAGE_CHARS)
        .map(visible)
        .collect()
}

fn bytes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let bytes = size::deserialize(deserializer)?;
    usize::try_from(bytes).map_err(serde::de::Error::custom)
}

fn some_bytes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<usize>, D::Error> {
    bytes(deserializer).map(Some)
}

const fn one() -> u32 {
    1
}

const fn usual_queue() -> usize {
    1_000
}

const fn usual_wait_ms() -> u64 {
    60_000
}

const fn usual_slow_start_ms() -> u64 {
    10_000
}
