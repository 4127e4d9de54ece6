//! The command `scaler-simulate`: scaling and placement policies on the paper's applications.

mod cli;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tetris_scaler_simulator::dispatch::{Service, compare_dispatch, simulate_service};
use tetris_scaler_simulator::{compare, sweep};

use cli::{Args, dispatch_html, dispatch_text, html, sweep_html, sweep_text, text};

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(reproduce) = &args.reproduce {
        return reproduce.run(&|done, all| progress(done, all, "settings"));
    }
    if args.service {
        return service();
    }
    if args.dispatch {
        let comparison = compare_dispatch(args.dispatch_grid()).context("simulating")?;
        return args
            .report
            .write(&comparison, dispatch_text::report, dispatch_html::page);
    }
    if args.sweep {
        let grid = args.grid()?;
        ensure!(
            grid.together > 0,
            "--sweep runs all applications together: expected --copies of 1 or more, found 0"
        );
        let comparison = sweep::sweep(grid, args.random(), &|done, all| {
            progress(done, all, "traces");
        })
        .context("simulating")?;
        return args
            .report
            .write(&comparison, sweep_text::report, sweep_html::page);
    }
    let grid = args.grid()?;
    let start = Instant::now();
    let mut clock = || start.elapsed().as_micros() as u64;
    let comparison = compare(grid, &mut clock).context("simulating")?;
    args.report.write(&comparison, text::report, html::page)
}

/// Simulates the service on standard input, and prints its outcome.
fn service() -> Result<()> {
    let service: Service =
        serde_json::from_reader(io::stdin().lock()).context("reading the service")?;
    let outcome = simulate_service(&service).context("simulating")?;
    serde_json::to_writer_pretty(io::stdout().lock(), &outcome).context("writing the outcome")?;
    writeln!(io::stdout()).context("writing the outcome")
}

/// Shows on a terminal how many of the `units` of a sweep are done.
fn progress(done: usize, all: usize, units: &str) {
    let mut stderr = io::stderr().lock();
    if stderr.is_terminal() {
        let end = if done == all { "\n" } else { "" };
        let _unseen = write!(stderr, "\r{done} of {all} {units}{end}");
        let _unseen = stderr.flush();
    }
}
