//! `tetris load`: publish models and report the work.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use serde_json::json;
use tetris_agent::{Agent, LoadOptions, LoadReport, Recognized};

use super::error::{Error, Result};
use super::exit::Code;
use super::loading::{Loaded, References, kind_of, lossy};
use super::output::{self, Output};
use super::progress::Bar;
use super::size::Bytes;
use super::table::{Side, Table};
use super::time::took;
use tetris_agent::store_location::StoreLocation;

/// Arguments of `load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Safetensors files, directories as Hugging Face lays them out, or other files, which are kept
    /// whole
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Keep safetensors files whole as well, for programs that map them by path
    #[arg(long)]
    whole_file: bool,
    /// Fill the page tables, as a server would that touches every tensor
    #[arg(long)]
    prefault: bool,
    /// Read and hash the files even if they are known
    #[arg(long)]
    rehash: bool,
    /// Threads that read and hash [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Keep the references until SIGINT or SIGTERM, so that the models are not reclaimed
    #[arg(long)]
    hold: bool,
}

/// Runs `load`.
pub(crate) fn run(args: &LoadArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let agent = Agent::with_store(location.open()?);
    let mut loaded = Vec::new();
    let mut failed: Option<Error> = None;
    for path in &args.models {
        match load(args, &agent, path) {
            Ok(model) => loaded.push((path.as_path(), model)),
            // The others are loaded all the same.
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    output::error(earlier);
                }
            }
        }
    }
    let wait_for = block_stop_signals(args.hold)?;
    print(&loaded, location, out)?;
    if let Some(error) = failed {
        return Err(error);
    }
    if args.hold {
        let keep = loaded
            .into_iter()
            .map(|(_, model)| model.into_references(&agent));
        hold(keep.collect(), &wait_for)?;
    }
    Ok(())
}

fn load(args: &LoadArgs, agent: &Agent, path: &Path) -> Result<Loaded> {
    let options = LoadOptions::default()
        .with_prefault(args.prefault)
        .with_ignore_identity(args.rehash)
        .with_threads(args.threads)
        // A model named here should be in the store.
        .with_min_shared_bytes(0)
        .with_progress(Bar::of_load("loading", path));
    let kind = kind_of(path, args.whole_file);
    Ok(Loaded::load(agent, path, kind, &options)?)
}

/// Blocks the signals that end `--hold`: before the report is printed, so that its reader may send
/// one, and after the load, which Ctrl-C still ends.
fn block_stop_signals(hold: bool) -> Result<SigSet> {
    let mut signals = SigSet::empty();
    if hold {
        signals.add(Signal::SIGINT);
        signals.add(Signal::SIGTERM);
        let blocked = signals.thread_block();
        blocked.map_err(|error| Error::new(Code::Failed, error))?;
    }
    Ok(signals)
}

fn hold(references: Vec<References>, signals: &SigSet) -> Result {
    let signal = signals.wait();
    signal.map_err(|error| Error::new(Code::Failed, error))?;
    drop(references);
    Ok(())
}

fn print(loaded: &[(&Path, Loaded)], location: &StoreLocation, out: &mut Output) -> Result {
    if out.is_json() {
        let models: Vec<_> = loaded
            .iter()
            .map(|(path, model)| model.to_json(path))
            .collect();
        out.json(&json!({ "store": lossy(&location.dir), "models": models }))?;
    } else if !loaded.is_empty() {
        table(loaded).print(out, "")?;
        for (path, model) in loaded {
            if let Some(stored) = model.stored_path() {
                out.line(format_args!("{} is {}", path.display(), stored.display()))?;
            }
        }
    }
    for (path, model) in loaded {
        if let Some(reason) = model.not_in_store() {
            output::warning(format_args!(
                "not all of `{}` is in the store: {reason}; make room with `tetris gc`, or a larger store with `tetris init --size`",
                path.display()
            ));
        }
    }
    out.flush()
}

fn table(loaded: &[(&Path, Loaded)]) -> Table {
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        ("MODEL", Side::Left),
        ("RECOGNIZED BY", Side::Left),
        right("TENSORS"),
        right("OBJECTS"),
        right("SHARED"),
        right("NEW"),
        right("PRIVATE"),
        right("READ"),
        right("TIME"),
    ]);
    for (path, model) in loaded {
        let report = model.report();
        table.row([
            path.display().to_string(),
            recognized(report),
            report.tensors.to_string(),
            report.objects.to_string(),
            Bytes(report.bytes_shared).to_string(),
            Bytes(report.bytes_new).to_string(),
            Bytes(report.bytes_private).to_string(),
            Bytes(report.bytes_read).to_string(),
            took(report.duration),
        ]);
    }
    table
}

/// The ways that the files of a model were recognized: `stat`, or `stat (3), hashing (1)`.
fn recognized(report: &LoadReport) -> String {
    let mut counts: Vec<(Recognized, usize)> = Vec::new();
    for &how in &report.recognized {
        match counts.iter_mut().find(|(seen, _)| *seen == how) {
            Some((_, count)) => *count += 1,
            None => counts.push((how, 1)),
        }
    }
    if let [(only, _)] = counts[..] {
        return only.name().to_owned();
    }
    let shown = counts
        .iter()
        .map(|(how, n)| format!("{} ({n})", how.name()));
    shown.collect::<Vec<_>>().join(", ")
}
