//! The command `tetris-scaler`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use tetris_scaler::cli::{Cli, Command};
use tetris_scaler::deploy::DeployArgs;
use tetris_scaler::resources::crds_yaml;
use tetris_service_kit::command;
use tetris_service_kit::traces::{Via, while_exporting};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // `plan` has more exit statuses than success and failure, and prints its errors itself.
    if let Command::Plan(args) = &cli.command {
        return command::run_unlogged(&cli.logs, || args.run());
    }
    // A person waits for it, and reads its progress and its errors.
    if let Command::Deploy(args) = &cli.command {
        return command::run_unlogged(&cli.logs, || match deploy(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => command::report(&error),
        });
    }
    command::run_traced(&cli.logs, &cli.traces(), "tetris-scaler", || {
        run(&cli.command)
    })
}

/// Installs a TLS provider for the whole process, as reqwest is built without one.
fn install_tls() -> Result<()> {
    let installed = rustls::crypto::ring::default_provider().install_default();
    if installed.is_err() {
        anyhow::bail!("TLS: the process already has a crypto provider");
    }
    Ok(())
}

fn deploy(args: &DeployArgs) -> Result<()> {
    install_tls()?;
    command::runtime()?.block_on(tetris_scaler::deploy::run(args))
}

fn run(command: &Command) -> Result<()> {
    install_tls()?;
    match command {
        Command::Run(args) => {
            let running = while_exporting(Via::Network, tetris_scaler::run::run(args));
            command::runtime()?.block_on(running)?;
            Ok(())
        }
        Command::OpenGates(args) => {
            command::runtime()?.block_on(tetris_scaler::gates::run(args))?;
            Ok(())
        }
        // Handled in `main`: they log nothing.
        Command::Plan(_) | Command::Deploy(_) => Ok(()),
        Command::Profile(args) => args.run(),
        Command::Install(args) => args.run(),
        Command::Completions(args) => args.run::<Cli>(),
        Command::Man(args) => args.run::<Cli>(),
        Command::Crds => {
            std::io::stdout().write_all(crds_yaml()?.as_bytes())?;
            Ok(())
        }
    }
}
