//! The command `tetris-scaler`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use tetris_scaler::cli::{Cli, Command};
use tetris_scaler::resources::crds_yaml;
use tetris_service_kit::command;
use tetris_service_kit::traces::{Via, while_exporting};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // `plan` has more exit statuses than success and failure, and prints its errors itself.
    if let Command::Plan(args) = &cli.command {
        return command::run_unlogged(&cli.logs, || args.run());
    }
    command::run_traced(&cli.logs, &cli.traces(), "tetris-scaler", || {
        run(&cli.command)
    })
}

fn run(command: &Command) -> Result<()> {
    // reqwest is built without a TLS provider: install one for the whole process.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("TLS: the process already has a crypto provider");
    }
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
        // Handled in `main`: it logs nothing.
        Command::Plan(_) => Ok(()),
        Command::Profile(args) => args.run(),
        Command::Completions(args) => args.run::<Cli>(),
        Command::Man(args) => args.run::<Cli>(),
        Command::Crds => {
            std::io::stdout().write_all(crds_yaml()?.as_bytes())?;
            Ok(())
        }
    }
}
