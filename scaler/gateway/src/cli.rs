//! Command line of `tetris-gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tetris_conventions::exit::{FAILED, USAGE, help};
use tetris_service_kit::command_help::{CompletionsArgs, ManArgs};
use tetris_service_kit::logs::LogArgs;
use tetris_service_kit::traces::TraceArgs;

/// Send inference requests to the instances of their function by capacity
#[derive(Debug, Parser)]
#[command(name = "tetris-gateway", version, max_term_width = 100, after_help = help(&[FAILED, USAGE]))]
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

/// Subcommands of `tetris-gateway`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until SIGTERM
    Run(Run),
    /// Check a configuration file, and print its functions
    Check(Check),
    /// Print a script by which a shell completes this command
    ///
    /// bash: `tetris-gateway completions bash > /etc/bash_completion.d/tetris-gateway`. zsh: into a file
    /// `_tetris-gateway` of $fpath. fish: into ~/.config/fish/completions/tetris-gateway.fish.
    #[command(long_about)]
    Completions(CompletionsArgs),
    /// Write the manual pages of this command and its subcommands
    ///
    /// `tetris-gateway man DIR`, then `man DIR/tetris-gateway.1`; or into a folder of man(1), such as
    /// /usr/local/share/man/man1.
    #[command(long_about)]
    Man(ManArgs),
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Configuration file (TOML) of limits, timeouts, and functions with their endpoints, which are read
    /// again when it changes; can be left out with --cluster
    #[arg(long, value_name = "FILE", required_unless_present = "cluster")]
    pub config: Option<PathBuf>,
    /// Take functions and instances from the cluster instead of the file
    #[arg(long)]
    pub cluster: bool,
    /// Namespace of the gateways' pods, with --cluster
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        hide_env_values = true,
        default_value = "tetris-system"
    )]
    pub namespace: String,
    /// Address of the HTTP server for clients
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Address of the HTTP server of /metrics, /loads, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9471")]
    pub metrics_listen: SocketAddr,
    /// Address of the endpoint picker, for data planes of the Gateway API Inference Extension; without it, none is served
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub picker_listen: Option<SocketAddr>,
    /// Name of this gateway on its page /loads
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAME",
        hide_env_values = true,
        default_value = "tetris-gateway"
    )]
    pub name: String,
    /// Arguments of traces.
    #[command(flatten)]
    pub traces: TraceArgs,
}

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}
