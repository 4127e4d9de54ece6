//! Command line of the benchmark.

use std::path::PathBuf;

use clap::Args;
use tetris_units::size;

use crate::measure::Name;

/// Maximum number of rounds and of processes: the mirror's server accepts 64 connections of one
/// user.
const MOST: i64 = 60;

/// Arguments of `gpu-bench`.
#[derive(Debug, Clone, Args)]
pub struct GpuBenchArgs {
    /// Run on host memory instead of a device: same code, but the figures do not apply to a GPU
    #[arg(long)]
    pub simulated: bool,
    /// Number of the device, in the driver's order
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        conflicts_with = "simulated"
    )]
    pub device: u32,
    /// Size of the generated model, with tensors in the proportions of an 8B Llama
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = model_bytes)]
    pub bytes: u64,
    /// Use the model of this safetensors file, instead of a generated one
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    pub model: Option<PathBuf>,
    /// Number of samples of each figure
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Number of processes that share the model
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    pub processes: u32,
    /// Length of the model's beginning that `transfers` copies in each round
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = some_bytes)]
    pub transfer_bytes: u64,
    /// Maximum length of a chunk of device memory: a multiple of 2 MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = chunk_bytes)]
    pub chunk_bytes: u64,
    /// Measures to take, separated by commas [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_enum)]
    pub only: Vec<Name>,
    /// Python interpreter with torch and safetensors, for `load-file` and `anchors`
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Directory on a tmpfs, in which the run has its store until it ends; can be repeated. Each further
    /// one, for a store with other pages, repeats the measures that depend on pages
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub store_dir: Vec<PathBuf>,
    /// Write the JSON document to this file too, after each measure
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Run as a process of a measure
    #[arg(long, hide = true)]
    pub role: bool,
}

/// Parses the model's length. The smallest model has one granule of the mirror.
fn model_bytes(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    let fits = (2 << 20..=1 << 40).contains(&bytes);
    fits.then_some(bytes)
        .ok_or_else(|| format!("expected 2MiB to 1TiB, found `{text}`"))
}

fn some_bytes(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    (bytes > 0)
        .then_some(bytes)
        .ok_or_else(|| format!("expected at least 1 byte, found `{text}`"))
}

fn chunk_bytes(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    let fits = bytes > 0 && bytes.is_multiple_of(2 << 20) && bytes <= 16 << 30;
    fits.then_some(bytes)
        .ok_or_else(|| format!("expected a multiple of 2MiB, at most 16GiB, found `{text}`"))
}
