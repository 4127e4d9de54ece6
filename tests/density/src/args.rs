//! Command line of the benchmark.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::methods::Method;
use crate::workload::Kind;

/// Measure the memory of a group of inference processes by loading method
///
/// Real processes load the same models side by side: read into private memory, mapped from one file
/// or from a file each, merged by the kernel, or shared through the Tetris tensor store. Each
/// process computes a matrix-vector pass over every tensor and stays alive during the measurement
/// of the whole group. The checksum of the pass must be the same for all methods.
///
/// Without options the benchmark generates synthetic models with the shapes of real ones, as large
/// as fits this machine. Limits, kernel samepage merging and a tmpfs mount need root; the report
/// lists a part that cannot be measured as skipped, with the reason.
#[derive(Clone, Debug, Parser)]
#[command(name = "density", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Args {
    /// Models to load: .safetensors files, or directories of them [default: synthetic models]
    #[arg(
        long,
        value_name = "PATH",
        num_args = 1..,
        conflicts_with_all = ["preset", "quick", "base"],
    )]
    pub model: Vec<PathBuf>,

    /// Base of a family of models: a .safetensors file, or a directory of them
    #[arg(
        long,
        value_name = "PATH",
        requires = "variants",
        conflicts_with_all = ["preset", "quick", "workload"],
    )]
    pub base: Option<PathBuf>,

    /// Fine-tunes of the base, to measure which part of them is the base's
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "base")]
    pub variants: Vec<PathBuf>,

    /// Groups to measure, separated by commas [default: all; with --model, replicas for one model and
    /// mixed for several]
    ///
    /// With --model, `replicas` measures a group of each model, and `mixed` one group in which the
    /// instances load the models by turns.
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        conflicts_with = "preset"
    )]
    pub workload: Vec<Kind>,

    /// Loading methods to compare, separated by commas [default: all but those with PyTorch]
    #[arg(long, value_name = "METHOD,...", value_delimiter = ',')]
    pub methods: Vec<Method>,

    /// Numbers of instances at which the group is measured, ascending and separated by commas
    /// [default: 1,2,4,8,16]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub instances: Vec<usize>,

    /// Memory limit for the density figure: a size such as 2G, `auto` (4 x one instance), or `off`
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = Budget::parse)]
    pub budget: Budget,

    /// Stop counting at this many instances under the limit
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub budget_cap: usize,

    /// Set of models with given sizes, instead of the synthetic families
    #[arg(long, value_name = "NAME", conflicts_with = "quick")]
    pub preset: Option<Preset>,

    /// Factor on the sizes of the preset [default: the largest that fits this machine, printed]
    #[arg(long, value_name = "FACTOR", requires = "preset", value_parser = parse_scale)]
    pub scale: Option<f64>,

    /// Seed of the synthetic weights
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Passes per method in the comparison of inference times
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub passes: u32,

    /// Maximum number of instances for kernel samepage merging, which is slow
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub ksm_instances: usize,

    /// Timeout for the kernel to merge the pages of one group
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub ksm_limit: u64,

    /// Timeout of a worker's answer
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub deadline: u64,

    /// Directory for models, copies and mounts, on a disk; restored at the end [default: $TMPDIR or
    /// /tmp]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,

    /// Interpreter for the methods with PyTorch, with torch, safetensors and tetris-store
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "TETRIS_DENSITY_PYTHON",
        hide_env_values = true,
        default_value = "python3"
    )]
    pub python: PathBuf,

    /// Run a smoke test with tiny models, whose figures mean nothing
    #[arg(long)]
    pub quick: bool,

    /// Write all figures and samples to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained report with plots to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Format of standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
}

const AFTER_HELP: &str = "\
Examples:
  density --html density.html                      the synthetic families
  density --model model.safetensors                replicas of a model of yours
  density --base ./base --variants ./tuned-a ./tuned-b
                                                   what a family of yours shares
  density --workload replicas --methods private,page-cache,tetris --budget off
                                                   one group, in about a minute

Duration:
  Without options about 5 minutes on 2 cores with 24 GiB. The duration grows with the models, the \
methods and the largest of --instances; --budget off saves about half. The progress on standard \
error gives the time left. --quick takes about a minute, and one small model half a minute.

Exit codes:
  0    every requested method was measured or skipped with a reason
  1    the run stopped, or a method failed (the report is still written)
  2    the command line is wrong
  3    the methods did not compute the same checksum
  130  interrupted; processes, mounts, settings and files were cleaned up";

/// Format of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables, during the run
    Text,
    /// The same JSON object as with --json, at the end
    Json,
}

/// A ready-made set of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// The sizes of Table 4 of the Tetris paper, 11 MB to 3.5 GB, times --scale
    Table4,
}

/// The memory limit of the density figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Four times one instance.
    Auto,
    /// None: the figure is not measured.
    Off,
    /// This many bytes.
    Bytes(u64),
}

impl Budget {
    fn parse(text: &str) -> Result<Self, tetris_units::size::SizeError> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            size => tetris_units::size::parse(size).map(Self::Bytes),
        }
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("expected a factor above 0 and at most 1".into()),
    }
}

impl Args {
    /// Returns the methods to compare.
    pub fn methods(&self) -> Vec<Method> {
        if self.methods.is_empty() {
            Method::DEFAULT.to_vec()
        } else {
            self.methods.clone()
        }
    }
}
