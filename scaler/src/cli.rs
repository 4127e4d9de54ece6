//! Command line of `tetris-scaler`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use tetris_conventions::exit::{FAILED, USAGE, help};
use tetris_scaler_core::{InventoryLimits, OperatorDefaults};
use tetris_service_kit::command_help::{CompletionsArgs, ManArgs};
use tetris_service_kit::logs::LogArgs;
use tetris_service_kit::traces::TraceArgs;
use tetris_units::duration::{self, DurationError};
use tetris_units::size::{self, SizeError};

use crate::placement::PlacementMode;

/// Choose batch size, concurrency and CPUs per instance, and place instances near their tensors
#[derive(Debug, Parser)]
#[command(name = "tetris-scaler", version, max_term_width = 100, after_help = help(&[FAILED, USAGE]))]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// Arguments of logs.
    #[command(flatten)]
    pub logs: LogArgs,
}

impl Cli {
    /// Arguments of traces; none of a subcommand without spans.
    pub fn traces(&self) -> TraceArgs {
        match &self.command {
            Command::Run(args) => args.traces.clone(),
            _ => TraceArgs::default(),
        }
    }
}

/// Subcommands of `tetris-scaler`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Scale the cluster's functions until SIGTERM
    Run(Box<Run>),
    /// Open scheduling gates of pods that the operator leaves closed, until SIGTERM
    OpenGates(OpenGates),
    /// Print the definitions of the custom resources, for `kubectl apply --server-side -f -`
    Crds,
    /// Print the scaler's decision from files, without a cluster: configurations, nodes and reasons
    Plan(crate::plan::PlanArgs),
    /// Measure a model server per configuration, and write its ModelProfile
    ///
    /// Starts COMMAND once per configuration of CPUs, batch size and concurrency, each time in its own
    /// cgroup. Sends requests over the Open Inference Protocol v2, and finds the lowest memory limit
    /// under which the instance still serves. Replaces {port}, {batch}, {batch_wait_millis}, {concurrency}
    /// and {cpu_millis} in COMMAND, and sets TETRIS_PORT, TETRIS_BATCH, TETRIS_BATCH_WAIT_MILLIS,
    /// TETRIS_CONCURRENCY and TETRIS_CPU_MILLIS. COMMAND must listen on 127.0.0.1 and stay in the foreground.
    #[command(long_about)]
    Profile(Box<tetris_scaler_profiler::cli::ProfileArgs>),
    /// Deploy a model as a function: bring it to nodes, measure it, and serve it
    ///
    /// Applies a Model, an InferenceFunction and the RoleBindings of the operator in the namespace. The operator brings the model
    /// to a node, chooses an engine for it, measures it by a Job, and starts instances within the objective. The command follows
    /// that until the function is ready. --dry-run prints the resources instead.
    #[command(long_about)]
    Deploy(Box<crate::deploy::DeployArgs>),
    /// Copy this command into a folder, for a container of another image
    #[command(hide = true)]
    Install(Install),
    /// Print a script by which a shell completes this command
    ///
    /// bash: `tetris-scaler completions bash > /etc/bash_completion.d/tetris-scaler`. zsh: into a file
    /// `_tetris-scaler` of $fpath. fish: into ~/.config/fish/completions/tetris-scaler.fish.
    #[command(long_about)]
    Completions(CompletionsArgs),
    /// Write the manual pages of this command and its subcommands
    ///
    /// `tetris-scaler man DIR`, then `man DIR/tetris-scaler.1`; or into a folder of man(1), such as
    /// /usr/local/share/man/man1.
    #[command(long_about)]
    Man(ManArgs),
}

/// Arguments of `open-gates`.
#[derive(Debug, Clone, Args)]
pub struct OpenGates {
    /// Address of the HTTP server of /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:9461")]
    pub listen: SocketAddr,
    /// Time for which a gate may stay closed
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = seconds(1, 3600))]
    pub after_seconds: u64,
}

/// Arguments of `install`.
#[derive(Debug, Clone, Args)]
pub struct Install {
    /// The folder
    pub folder: PathBuf,
}

impl Install {
    /// Copies the running command.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be written.
    pub fn run(&self) -> anyhow::Result<()> {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt as _;
        let target = self.folder.join("tetris-scaler");
        std::fs::copy("/proc/self/exe", &target)
            .and_then(|_| std::fs::set_permissions(&target, Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot copy this command to `{}`", target.display()))
    }
}

/// The reason that an argument is refused.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error("expected {least} to {most} seconds, found `{found}`")]
    Seconds {
        least: u64,
        most: u64,
        found: String,
    },
    #[error("expected at least {least}, found `{found}`")]
    TooSmall { least: String, found: String },
}

/// Parser of times from `least` to `most` seconds: `90`, `90s` or `5m`.
fn seconds(least: u64, most: u64) -> impl Fn(&str) -> Result<u64, ArgumentError> + Clone {
    move |text| {
        let seconds = duration::parse_seconds(text)?;
        if (least..=most).contains(&seconds) {
            return Ok(seconds);
        }
        let found = text.to_owned();
        Err(ArgumentError::Seconds { least, most, found })
    }
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Address of the HTTP server of /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:9461")]
    pub listen: SocketAddr,
    /// Address of KEDA's external scaler, over gRPC
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:9462")]
    pub keda_listen: SocketAddr,
    /// Namespace of the lease and of the service account
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        hide_env_values = true,
        default_value = "tetris-system"
    )]
    pub namespace: String,
    /// Service account of the scaler, of which the daemons get tokens
    #[arg(long, value_name = "NAME", default_value = "tetris-scaler")]
    pub service_account: String,
    /// Name of this replica's pod, for the lease and for tokens, which end with the pod; without it, the lease has "tetris-scaler"
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide_env_values = true)]
    pub pod: Option<String>,
    /// Name of the lease
    #[arg(long, value_name = "NAME", default_value = "tetris-scaler")]
    pub lease: String,
    /// Seconds without renewal after which another replica takes over the lease
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds(15, 3600))]
    pub lease_seconds: u64,
    /// URL of the Prometheus server for the queries of functions
    #[arg(long, value_name = "URL")]
    pub prometheus_url: Option<String>,
    /// File with a bearer token for Prometheus; read again for each query
    #[arg(long, value_name = "FILE")]
    pub prometheus_token_file: Option<PathBuf>,
    /// PEM file of CA certificates for Prometheus, in addition to the system's, or to the compiled-in ones where the system has none
    #[arg(long, value_name = "FILE")]
    pub prometheus_ca: Option<PathBuf>,
    /// Timeout of a Prometheus query
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = seconds(1, 60))]
    pub prometheus_timeout_seconds: u64,
    /// Longest interval between two decisions, and between two reads of the loads
    #[arg(long, value_name = "SECONDS", default_value_t = OperatorDefaults::ALL.interval_seconds, value_parser = seconds(1, 600))]
    pub interval_seconds: u64,
    /// Interval between two polls of each node's daemon for its tensors
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = seconds(1, 60))]
    pub poll_seconds: u64,
    /// Way in which pods get to the nodes of the plan; a change replaces all instances
    #[arg(long, value_name = "MODE", value_enum, default_value_t = PlacementMode::Gates)]
    pub placement: PlacementMode,
    /// Namespace of the daemons
    #[arg(long, value_name = "NAME", default_value = "tetris-system")]
    pub daemon_namespace: String,
    /// Namespace of the gateways
    #[arg(long, value_name = "NAME", default_value = "tetris-system")]
    pub gateway_namespace: String,
    /// Steady time after which a function's instances may be replaced to save memory; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = OperatorDefaults::ALL.consolidate_after_seconds, value_parser = seconds(0, u64::MAX))]
    pub consolidate_after_seconds: u64,
    /// Time for which an instance may be unready on its node before others are started in its place
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = seconds(10, 86_400))]
    pub failing_after_seconds: u64,
    /// Memory by which the tensor inventory is limited, at least 64MiB [default: the limit of the
    /// container, else 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = inventory_memory)]
    pub inventory_memory: Option<u64>,
    /// Arguments of traces.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// Parses a memory that limits can be for.
fn inventory_memory(text: &str) -> Result<u64, ArgumentError> {
    let memory = size::parse(text)?;
    if memory >= InventoryLimits::LEAST_MEMORY {
        return Ok(memory);
    }
    Err(ArgumentError::TooSmall {
        least: size::format(InventoryLimits::LEAST_MEMORY),
        found: text.to_owned(),
    })
}
