//! The `density` command: see `density --help`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use nix::sys::signal::Signal;
use tetris_density::args::{Args, Format};
use tetris_density::interrupt;
use tetris_density::process::{child, protocol};
use tetris_density::report::output_file::OutputFile;
use tetris_density::report::{html, text};
use tetris_density::system::{broker, privacy};
use tetris_density::{Error, run};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const DISAGREEMENT: u8 = 3;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(protocol::WORKER) {
        let served = child::serve(io::stdin().lock(), io::stdout().lock());
        return if served.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(FAILED)
        };
    }
    if std::env::args().nth(1).as_deref() == Some(broker::DAEMON) {
        return daemon();
    }
    let args = Args::parse();
    match benchmark(&args) {
        Ok(code) => code,
        Err(error) => {
            // If standard error is closed, no output is left.
            let _ = writeln!(io::stderr(), "density: {error:#}");
            ExitCode::from(match error.downcast_ref::<Error>() {
                Some(Error::Interrupted) => INTERRUPTED,
                Some(Error::Usage(_)) => USAGE,
                _ => FAILED,
            })
        }
    }
}

/// Runs the daemon of the brokered method, which ends with this benchmark in every case.
fn daemon() -> ExitCode {
    let lasts = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    debug_assert!(lasts.is_ok(), "a valid signal was refused");
    let args = std::env::args_os();
    tetris_node::cli::Cli::parse_from(
        args.enumerate()
            .filter(|(i, _)| *i != 1)
            .map(|(_, arg)| arg),
    )
    .run()
}

fn benchmark(args: &Args) -> Result<ExitCode> {
    interrupt::install().context("cannot catch signals")?;
    privacy::enter_own_mounts();
    if args.json.is_some() && args.json == args.html {
        let reason = "--json and --html need different files".to_owned();
        return Err(Error::Usage(reason).into());
    }
    let open = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::open).transpose();
    let (json_file, html_file) = (open(&args.json)?, open(&args.html)?);
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut legend = Some(text::legend(&args.methods()));
    let (report, outcomes) = run::run(args, program, &mut |progress, workload| {
        if args.format == Format::Text {
            let legend = legend.take().unwrap_or_default();
            progress.aside(|| print(&format!("{legend}{}", text::workload(workload))));
        }
    })?;
    let json = serde_json::to_string_pretty(&report)?;
    match args.format {
        Format::Text => print(&text::closing(&report)),
        Format::Json => print(&format!("{json}\n")),
    }
    if args.format == Format::Text && html_file.is_none() {
        let _ = writeln!(
            io::stderr(),
            "density: --html FILE writes a page with plots of such a run"
        );
    }
    if let Some(file) = json_file {
        file.write(&json)?;
    }
    if let Some(file) = html_file {
        file.write(&html::page(&report))?;
    }
    if let Some(wrong) = outcomes.disagreement {
        let _ = writeln!(io::stderr(), "density: checksums disagree: {wrong}");
        return Ok(ExitCode::from(DISAGREEMENT));
    }
    Ok(if outcomes.failed {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints data to standard output, and ignores a closed pipe.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
