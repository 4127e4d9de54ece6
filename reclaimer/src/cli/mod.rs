//! The command line of `tetris-node`.

#[cfg(feature = "node")]
mod mount;
mod once;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tetris_service_kit::command;
use tetris_service_kit::logs::LogArgs;

use crate::config::ConfigFlags;
use crate::daemon;

/// Free unmapped tensors of this node's stores, by policy
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
    /// Make one pass, print its results, and end
    Once(Once),
    /// Check the configuration and print it with all defaults
    Check(ConfigFlags),
    /// Mount the tmpfs of the table `mount` and make the stores on it, without running
    #[cfg(feature = "node")]
    Mount(ConfigFlags),
    /// Unmount that tmpfs; processes keep the objects that they map
    #[cfg(feature = "node")]
    Unmount(ConfigFlags),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    config: ConfigFlags,
    /// Free nothing: only report the objects that a pass would free
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct Once {
    #[command(flatten)]
    config: ConfigFlags,
    /// Free nothing: only report the objects that a pass would free
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

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    Cli::parse().run()
}

impl Cli {
    /// Runs the command. Errors are logged.
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
        #[cfg(feature = "node")]
        Command::Mount(flags) => mount::mount(flags),
        #[cfg(feature = "node")]
        Command::Unmount(flags) => mount::unmount(flags),
    }
}
