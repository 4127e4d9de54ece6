//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::logs::LogFormat;

/// Chooses batch size, concurrency and CPUs per instance, and puts instances where their tensors are
#[derive(Debug, Parser)]
#[command(name = "tetris-scaler", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How log lines are written, to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: a level, or a filter such as `info,tetris_scaler=debug`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "RUST_LOG",
        default_value = "info"
    )]
    pub log: String,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Scale the cluster's functions until SIGTERM
    Run(Box<Run>),
    /// Print the definitions of the custom resources, for `kubectl apply --server-side -f -`
    Crds,
    /// Decide from files, without a cluster: configurations, nodes, and why
    Plan(crate::plan::PlanArgs),
    /// Measure a model server per configuration, and write its ModelProfile
    Profile(Box<tetris_scaler_profiler::cli::ProfileArgs>),
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Where /metrics, /healthz and /readyz are served, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9461")]
    pub listen: SocketAddr,
    /// Where KEDA's external scaler is served, over gRPC
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9462")]
    pub keda_listen: SocketAddr,
    /// Where the scheduler extender is served, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9463")]
    pub extender_listen: SocketAddr,
    /// The namespace of the lease
    #[arg(long, env = "POD_NAMESPACE", default_value = "tetris-system")]
    pub namespace: String,
    /// This replica, in the lease
    #[arg(long, env = "POD_NAME", default_value = "tetris-scaler")]
    pub pod: String,
    /// The lease's name
    #[arg(long, default_value = "tetris-scaler")]
    pub lease: String,
    /// After so long without renewal another replica takes over
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(15..=3600))]
    pub lease_seconds: u64,
    /// The Prometheus server that knows the loads
    #[arg(long, value_name = "URL")]
    pub prometheus_url: Option<String>,
    /// A file with a bearer token for it; read for each query
    #[arg(long, value_name = "PATH")]
    pub prometheus_token_file: Option<PathBuf>,
    /// Certificates in PEM that its own may be signed by, beside the system's, or compiled-in ones where it has none
    #[arg(long, value_name = "PATH")]
    pub prometheus_ca: Option<PathBuf>,
    /// How long a query may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub prometheus_timeout_seconds: u64,
    /// Loads are asked for, and decisions made, at least so often
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub interval_seconds: u64,
    /// The daemons of nodes are asked for their tensors so often
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub poll_seconds: u64,
    /// The namespace of these daemons
    #[arg(long, default_value = "tetris-system")]
    pub daemon_namespace: String,
    /// A function that was steady for so long may have its instances replaced to save memory; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub consolidate_after_seconds: u64,
}
