//! The command line.

use std::net::SocketAddr;

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
    /// Print the definitions of the custom resources, for `kubectl apply -f -`
    Crds,
    /// Decide from files, without a cluster: configurations, nodes, and why
    Plan(crate::plan::PlanArgs),
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Where /metrics, /healthz and /readyz are served, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9461")]
    pub listen: SocketAddr,
}
