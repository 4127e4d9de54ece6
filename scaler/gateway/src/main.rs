//! The command `tetris-gateway`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use tetris_gateway::cli::{Cli, Command};
use tetris_gateway::config::Config;
use tetris_service_kit::command;
use tetris_service_kit::traces::{Via, while_exporting};

fn main() -> ExitCode {
    let cli = Cli::parse();
    command::run_traced(&cli.logs, &cli.traces(), "tetris-gateway", || {
        run(&cli.command)
    })
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => {
            // The client of the API server is built without a TLS provider: one for the process.
            if args.cluster
                && rustls::crypto::ring::default_provider()
                    .install_default()
                    .is_err()
            {
                anyhow::bail!("TLS: the process already has a crypto provider");
            }
            let serving = while_exporting(Via::Network, tetris_gateway::run::run(args));
            Ok(command::runtime()?.block_on(serving)?)
        }
        Command::Completions(args) => args.run::<Cli>(),
        Command::Man(args) => args.run::<Cli>(),
        Command::Check(args) => {
            let config = Config::read(&args.config)?;
            let mut out = std::io::stdout();
            for (name, function) in &config.function {
                let count = function.instance.len();
                writeln!(out, "{name}: {count} instances, SLO {} ms", function.slo_ms)?;
            }
            for (pool, of) in &config.gpu_pool {
                let count = of.executors.len();
                for (name, function) in &of.function {
                    let slo = function.slo_ms;
                    writeln!(out, "{name}: {count} GPUs of pool {pool}, SLO {slo} ms")?;
                }
            }
            for (group, of) in &config.engine_group {
                for (name, engine) in &of.engine {
                    let models = engine.models.join(", ");
                    writeln!(out, "{name}: an engine of group {group}, models {models}")?;
                }
            }
            Ok(())
        }
    }
}
