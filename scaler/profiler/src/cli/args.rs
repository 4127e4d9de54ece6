//! Options of `profile`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::latency::Percentile;
use crate::setting::parse_cpus;

/// Measure a model server per configuration, and write a ModelProfile.
///
/// Starts COMMAND once per configuration of CPUs, batch and concurrency, in a cgroup of its own, asks it over the Open Inference
/// Protocol v2, and finds the least memory under which it passes. In COMMAND, {port}, {batch}, {concurrency} and {cpu_millis} are
/// replaced; TETRIS_PORT, TETRIS_BATCH, TETRIS_CONCURRENCY and TETRIS_CPU_MILLIS are in its environment. It has to listen on
/// 127.0.0.1 and stay in the foreground.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    /// The model's name in the inference protocol
    #[arg(long, value_name = "NAME", required_unless_present_any = ["list", "name"])]
    pub(super) model: Option<String>,
    /// Name of the profile; by default made of the model's
    #[arg(long, value_name = "PROFILE")]
    pub(super) name: Option<String>,
    /// CPUs of an instance: numbers with at most three decimals
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2", value_parser = parse_cpus)]
    pub(super) cpus: Vec<u64>,
    /// Largest batches
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,4"
    )]
    pub(super) batch: Vec<u32>,
    /// Numbers of concurrent inference threads
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,3,4"
    )]
    pub(super) concurrency: Vec<u32>,
    /// Requests per configuration after which it is enough
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..=10_000_000))]
    pub(super) requests: u32,
    /// Seconds per configuration after which it is enough
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: u32,
    /// Seconds that an instance may take to be ready
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) ready_seconds: u32,
    /// Seconds that a request may take, and 20 requests of a slow configuration together
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) request_seconds: u32,
    /// The tensor store that the instances load through; what they map of it is shared
    #[arg(long, value_name = "PATH")]
    pub(super) store: Option<PathBuf>,
    /// The loosest latency objective of interest: what it rules out is not measured
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=7_200_000))]
    pub(super) slo_millis: Option<u32>,
    /// The lowest percentile that an objective is for
    #[arg(
        long,
        value_name = "P",
        value_enum,
        default_value = "95",
        requires = "slo_millis"
    )]
    pub(super) slo_percentile: Percentile,
    /// Send this request, an inference request in JSON, instead of ones made from the model's metadata
    #[arg(long, value_name = "FILE")]
    pub(super) request: Option<PathBuf>,
    /// What random requests begin with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Size of dimensions that may have any size, and words of a text
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) dynamic_size: u32,
    /// Make cgroups in this one: a path from the hierarchy's root. By default the profiler's own, or the nearest that can have children
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup_parent: Option<PathBuf>,
    /// The database of measurements; by default tetris/profiles.redb in the user's data directory
    #[arg(long, value_name = "FILE")]
    pub(super) database: Option<PathBuf>,
    /// Measure again what the database has
    #[arg(long, conflicts_with_all = ["list", "from_database"])]
    pub(super) fresh: bool,
    /// List the profiles of the database
    #[arg(long, conflicts_with = "from_database")]
    pub(super) list: bool,
    /// Write the profile that the database has, and measure nothing
    #[arg(long)]
    pub(super) from_database: bool,
    /// What to write to standard output; to --output goes YAML unless this is json
    #[arg(long, value_enum, default_value = "table")]
    pub(super) format: Format,
    /// Write the ModelProfile to this file
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// The command of an instance
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// Forms of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// The resource as JSON.
    Json,
    /// The resource as YAML.
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
        let data =
            data.context("neither XDG_DATA_HOME nor HOME is set; name a database with --database")?;
        Ok(data.join("tetris/profiles.redb"))
    }
}
