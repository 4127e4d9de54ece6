//! The command line of `tetris-node`.

mod once;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::ConfigFlags;
use crate::daemon;
use crate::logs::{LogFormat, init_logs};

/// Frees tensors of this node's stores that nobody maps, under policy
#[derive(Debug, Parser)]
#[command(name = "tetris-node", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How log lines are written, to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// What is logged: a level, or a filter such as `info,tetris_node=debug`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "RUST_LOG",
        default_value = "info"
    )]
    log: String,
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
    /// How the result is printed
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
        match run(self) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!("{error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    init_logs(cli.log_format, &cli.log)?;
    match &cli.command {
        Command::Run(args) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                // Passes and the scrub have threads of their own.
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(daemon::run(&args.config, args.dry_run))
        }
        Command::Once(args) => once::run(args),
        Command::Check(flags) => once::check(flags),
    }
}
