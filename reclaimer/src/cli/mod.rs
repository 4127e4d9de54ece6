//! The command line of `tetris-node`.

mod once;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tetris_service_kit::command;
use tetris_service_kit::logs::LogArgs;

use crate::config::ConfigFlags;
use crate::daemon;

/// Frees tensors of this node's stores that nobody maps, under policy
#[derive(Debug, Parser)]
#[command(name = "tetris-node", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run until SIGTERM; SIGHUP reads the configuration again
    Run(Run),
    /// Make one pass, say what it did, and end
    Once(Once),
    /// Check the configuration and print it with all defaults
    Check(ConfigFlags),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    config: ConfigFlags,
    /// Free nothing: only say what would be freed
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct Once {
    #[command(flatten)]
    config: ConfigFlags,
    /// Free nothing: only say what would be freed
    #[arg(long)]
    dry_run: bool,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs what the process was started with.
pub fn main() -> ExitCode {
    Cli::parse().run()
}

impl Cli {
    /// Does what it says. Errors are logged.
    pub fn run(&self) -> ExitCode {
        command::run(&self.logs, || run(self))
    }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Run(args) => {
            // Passes and the scrub have threads of their own.
            command::runtime()?.block_on(daemon::run(&args.config, args.dry_run))
        }
        Command::Once(args) => once::run(args),
        Command::Check(flags) => once::check(flags),
    }
}
