//! Arguments of `profile`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tetris_scaler_core::{GpuType, MAX_MEMORY_BYTES};

use crate::latency::Percentile;
use crate::oip::Protocol;
use crate::setting::parse_cpus;

/// Arguments of `profile`.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    /// Name of the model in the inference protocol; needed unless --name or --list is given
    #[arg(long, value_name = "NAME", required_unless_present_any = ["list", "name"])]
    pub(super) model: Option<String>,
    /// Protocol of the server
    #[arg(long, value_name = "PROTOCOL", value_enum, default_value_t)]
    pub(super) protocol: Protocol,
    /// Number of new tokens of a completion, with --protocol openai
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) tokens: u32,
    /// Name of the profile [default: derived from the model's name]
    #[arg(long, value_name = "PROFILE")]
    pub(super) name: Option<String>,
    /// CPUs of an instance, with at most three decimals; separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2", value_parser = parse_cpus)]
    pub(super) cpus: Vec<u64>,
    /// Maximum batch sizes, separated by commas
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,2,4"
    )]
    pub(super) batch: Vec<u32>,
    /// Numbers of concurrent inference threads, separated by commas
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,2,3,4"
    )]
    pub(super) concurrency: Vec<u32>,
    /// Maximum number of requests per configuration
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..=10_000_000))]
    pub(super) requests: u32,
    /// Maximum time per configuration, in seconds, once it has 20 answers
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: u32,
    /// Time after which no further configuration is begun, in seconds, once one is measured
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) budget_seconds: Option<u32>,
    /// Timeout for an instance to become ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) ready_seconds: u32,
    /// Timeout of a request, and of the first 20 requests of a configuration, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) request_seconds: u32,
    /// Tensor store that the instances load through; its mapped objects count as shared memory
    #[arg(long, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
    /// Loosest latency objective of interest, in milliseconds; configurations that cannot meet it are
    /// skipped
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=7_200_000))]
    pub(super) slo_millis: Option<u32>,
    /// Lowest percentile that an objective is about, with --slo-millis
    #[arg(
        long,
        value_name = "P",
        value_enum,
        default_value = "95",
        requires = "slo_millis"
    )]
    pub(super) slo_percentile: Percentile,
    /// File with an inference request in JSON to send, instead of requests made from the model's
    /// metadata
    #[arg(long, value_name = "FILE")]
    pub(super) request: Option<PathBuf>,
    /// Seed of random requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Size of dynamic dimensions, and number of words of a text
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) dynamic_size: u32,
    /// Parent of the profiler's cgroups: a path from the hierarchy's root [default: its own
    /// cgroup, or the nearest that can have children]
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup_parent: Option<PathBuf>,
    /// Type of the GPU that the instances use: the product's name, as `nvidia-smi -L` shows it; needs
    /// --gpu-own-bytes
    #[arg(long, value_name = "TYPE", requires = "gpu_own_bytes", value_parser = str::parse::<GpuType>)]
    pub(super) gpu_type: Option<GpuType>,
    /// Private device memory of an instance, in bytes: what `nvidia-smi` shows for its processes, less
    /// the tensors
    #[arg(long, value_name = "BYTES", requires = "gpu_type", value_parser = clap::value_parser!(u64).range(..=MAX_MEMORY_BYTES))]
    pub(super) gpu_own_bytes: Option<u64>,
    /// Rate of loads to the GPU in bytes per second, as `gpu-bench --only transfers` measures it
    #[arg(long, value_name = "N", requires = "gpu_type", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) gpu_bytes_per_second: Option<u64>,
    /// Database of measurements [default: tetris/profiles.redb in the user's data directory]
    #[arg(long, value_name = "FILE")]
    pub(super) database: Option<PathBuf>,
    /// Measure again, and replace the measurements in the database
    #[arg(long, conflicts_with_all = ["list", "from_database"])]
    pub(super) fresh: bool,
    /// List the profiles of the database
    #[arg(long, conflicts_with = "from_database")]
    pub(super) list: bool,
    /// Write the profile in the database, without measuring
    #[arg(long)]
    pub(super) from_database: bool,
    /// Format on standard output; --output gets JSON for json, otherwise YAML
    #[arg(long, value_enum, default_value = "table")]
    pub(super) format: Format,
    /// Show the progress and then the profile as JSON at http://ADDRESS:PORT/profile, until SIGTERM
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["list", "from_database"])]
    pub(super) serve: Option<SocketAddr>,
    /// Write the ModelProfile to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Command that starts an instance, with its arguments; needed to measure
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// Format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    Table,
    /// The resource as JSON
    Json,
    /// The resource as YAML
    Yaml,
}

impl ProfileArgs {
    pub(super) fn database_path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.database {
            return Ok(path.clone());
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let data = variable("XDG_DATA_HOME").map(PathBuf::from);
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/share"));
        let data = data.or_else(home);
        let data = data.context(
            "neither XDG_DATA_HOME nor HOME is set; set one, or name a database with --database",
        )?;
        Ok(data.join("tetris/profiles.redb"))
    }
}
