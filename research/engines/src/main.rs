//! The command `engine-simulate`.

use std::io::Write as _;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use serde::Serialize;
use tetris_engine_simulator::{
    Figures, SECOND, Scenario, USUAL, Workload, candidates, moves, run, trace,
};

/// Compare rules for engines that sleep on one device, on simulated time
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Number of models, 1 to 64
    #[arg(long, default_value_t = 8)]
    models: usize,
    /// Exponent of Zipf's law
    #[arg(long, default_value_t = 1.0)]
    exponent: f64,
    /// Requests per second; several are run one after the other
    #[arg(long, default_values_t = [0.1, 0.5, 2.0])]
    rate: Vec<f64>,
    /// Length of the trace in minutes
    #[arg(long, default_value_t = 20)]
    minutes: u64,
    /// Seed of the trace
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Residence of Tetris in milliseconds
    #[arg(long, default_value_t = USUAL.0 / 1_000)]
    residence_ms: u64,
    /// Turn of Tetris in milliseconds
    #[arg(long, default_value_t = USUAL.1 / 1_000)]
    turn_ms: u64,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Serialize)]
struct Row {
    moves: &'static str,
    rate: f64,
    policy: &'static str,
    awake: u64,
    #[serde(flatten)]
    figures: Figures,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    ensure!(
        (1..=64).contains(&cli.models),
        "--models: found {}, expected 1 to 64",
        cli.models
    );
    ensure!(
        (1..=24 * 60).contains(&cli.minutes),
        "--minutes: found {}, expected 1 to 1440",
        cli.minutes
    );
    for rate in &cli.rate {
        ensure!(
            *rate > 0.0 && *rate <= 100.0,
            "--rate: found {rate}, expected a number above 0, and 100 at most"
        );
    }
    let rows = rows(&cli);
    let mut out = std::io::stdout().lock();
    match cli.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &rows)?;
            writeln!(out)?;
        }
        Format::Text => text(&mut out, &rows)?,
    }
    Ok(())
}

fn rows(cli: &Cli) -> Vec<Row> {
    let mut rows = Vec::new();
    let times = (
        cli.residence_ms.saturating_mul(1_000),
        cli.turn_ms.saturating_mul(1_000),
    );
    for moves in moves() {
        for &rate in &cli.rate {
            let workload = Workload {
                models: cli.models,
                exponent: cli.exponent,
                rate,
                length_us: cli.minutes * 60 * SECOND,
            };
            let scenario = Scenario {
                workload,
                moves,
                wait_us: 180 * SECOND,
            };
            let requests = trace(&workload, cli.seed);
            for candidate in candidates(times) {
                let mut policy = candidate.policy(cli.models);
                rows.push(Row {
                    moves: moves.name,
                    rate,
                    policy: candidate.name,
                    awake: candidate.awake,
                    figures: run(policy.as_mut(), &requests, &scenario),
                });
            }
        }
    }
    rows
}

fn text(out: &mut impl std::io::Write, rows: &[Row]) -> Result<()> {
    writeln!(
        out,
        "| moves | requests/s | rule | awake | first token p50 | p99 | wakes | served | without answer | served/min |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        let of = &row.figures;
        writeln!(
            out,
            "| {} | {} | {} | {} | {:.1} s | {:.1} s | {} | {} | {} | {:.1} |",
            row.moves,
            row.rate,
            row.policy,
            row.awake,
            of.first_p50_ms as f64 / 1e3,
            of.first_p99_ms as f64 / 1e3,
            of.switches,
            of.served,
            of.failed,
            of.per_minute
        )?;
    }
    Ok(())
}
