//! The command line of `tetris-node`.

mod check;
pub mod exit;
mod mount;
mod once;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use tetris_conventions::document::{self, ErrorDocument};
use tetris_service_kit::command::{self, Failure};
use tetris_service_kit::command_help::{CompletionsArgs, ManArgs};
use tetris_service_kit::logs::LogArgs;
use tetris_service_kit::traces::{TraceArgs, Via, while_exporting};
use tetris_service_kit::unix_http::UnixHttpError;

use crate::config::{ConfigError, ConfigFlags};
use crate::daemon::{self, OtherDaemon};
use crate::processes::{mirror, volumes};

/// Name of the service in traces.
const SERVICE: &str = "tetris-node";

/// Look after a node's tensor stores: free unmapped tensors, publish files for pods, serve devices
#[derive(Debug, Parser)]
#[command(name = "tetris-node", version, max_term_width = 100, after_help = exit::table())]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run in one process until SIGTERM; SIGHUP reads the configuration again
    Run(Run),
    /// Mount the stores and the volumes of pods, as the privileged process of several, until SIGTERM
    Volumes(Serve),
    /// Look after the stores, as a process without privileges, until SIGTERM
    Broker(Serve),
    /// Talk to the API server and serve the network, as the process with the cluster's token, until
    /// SIGTERM
    Cluster(Serve),
    /// Serve the devices of the table `gpu_mirror`, as a process beside `broker`, until SIGTERM
    Mirror(Serve),
    /// Make one pass, print its results, and end
    Once(Once),
    /// Check the configuration, and print it with all defaults in the form that --config takes
    Check(Check),
    /// Mount the tmpfs of the table `mount` and make the stores on it, without running
    Mount(ConfigFlags),
    /// Unmount the tmpfs of the table `mount`; processes keep the objects that they map
    Unmount(ConfigFlags),
    /// Print a script by which a shell completes this command
    ///
    /// bash: `tetris-node completions bash > /etc/bash_completion.d/tetris-node`. zsh: into a file
    /// `_tetris-node` of $fpath. fish: into ~/.config/fish/completions/tetris-node.fish.
    #[command(long_about)]
    Completions(CompletionsArgs),
    /// Write the manual pages of this command and its subcommands
    ///
    /// `tetris-node man DIR`, then `man DIR/tetris-node.1`; or into a folder of man(1), such as
    /// /usr/local/share/man/man1.
    #[command(long_about)]
    Man(ManArgs),
}

/// Arguments of processes that run until SIGTERM.
#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    traces: TraceArgs,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    serve: Serve,
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

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    config: ConfigFlags,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people; from `check`, TOML
    Text,
    /// One JSON document on one line, a result or an error
    Json,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    Cli::parse().run()
}

impl Cli {
    /// Runs the command. Errors are logged.
    pub fn run(&self) -> ExitCode {
        command::run_traced(&self.logs, &self.traces(), SERVICE, || {
            run(self).map_err(with_status).inspect_err(|error| {
                // A pass that met errors has its result, which lists them.
                if self.is_json() && command::status(error) != exit::INCOMPLETE {
                    // Standard error and the exit code have it too.
                    drop(print_json(error_document(error)));
                }
            })
        })
    }

    /// Arguments of traces; none of a subcommand without spans.
    fn traces(&self) -> TraceArgs {
        let serve = match &self.command {
            Command::Run(args) => &args.serve,
            Command::Volumes(serve)
            | Command::Broker(serve)
            | Command::Cluster(serve)
            | Command::Mirror(serve) => serve,
            _ => return TraceArgs::default(),
        };
        serve.traces.clone()
    }

    fn is_json(&self) -> bool {
        match &self.command {
            Command::Once(args) => args.format == Format::Json,
            Command::Check(args) => args.format == Format::Json,
            _ => false,
        }
    }
}

/// Prints a result as one line of JSON.
fn print_json(result: Value) -> Result<()> {
    let line = format!("{}\n", document::of_result(result));
    std::io::stdout().lock().write_all(line.as_bytes())?;
    Ok(())
}

fn error_document(error: &Error) -> Value {
    let status = command::status(error);
    let message = command::with_causes(error);
    let mut document = ErrorDocument::new(status.name, status.code, message).to_json();
    let failure = error.downcast_ref::<Failure>();
    let wrong = failure.and_then(|failure| failure.error().downcast_ref::<ConfigError>());
    let fields = document.get_mut("error").and_then(Value::as_object_mut);
    if let (Some(wrong), Some(fields)) = (wrong, fields) {
        fields.insert("mistakes".to_owned(), json!(wrong.mistakes()));
    }
    document
}

/// Gives an error its exit code.
fn with_status(error: Error) -> Error {
    if error.is::<ConfigError>() {
        Failure::new(exit::CONFIGURATION, error).into()
    } else if error.is::<OtherDaemon>() || is_taken(&error) {
        Failure::new(exit::OTHER_DAEMON, error).into()
    } else {
        error
    }
}

/// Returns true if another process listens on this one's socket.
fn is_taken(error: &Error) -> bool {
    let error = error.downcast_ref::<UnixHttpError>();
    matches!(error, Some(UnixHttpError::InUse { .. }))
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Run(args) => {
            // Passes and the scrub have their own threads.
            let running = daemon::run(&args.serve.config, args.dry_run);
            command::runtime()?.block_on(while_exporting(Via::Network, running))
        }
        Command::Volumes(serve) => command::runtime()?.block_on(volumes::run(&serve.config)),
        Command::Broker(serve) => daemon::broker(&serve.config),
        Command::Cluster(serve) => daemon::cluster(&serve.config),
        Command::Mirror(serve) => mirror::run(&serve.config),
        Command::Once(args) => once::run(args),
        Command::Check(args) => check::run(args),
        Command::Mount(flags) => mount::mount(flags),
        Command::Unmount(flags) => mount::unmount(flags),
        Command::Completions(args) => args.run::<Cli>(),
        Command::Man(args) => args.run::<Cli>(),
    }
}
