//! `tetris load`: publish models and report the work.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tetris_agent::{Agent, LoadOptions, LoadReport, Recognized, Words};
use tetris_units::size::Bytes;

use super::checkpoint::is_torch_checkpoint;
use super::error::Result;
use super::failures::Failures;
use super::interruption::Interruption;
use super::loading::{Loaded, References, kind_of, lossy};
use super::output::{self, Output};
use super::progress::Bar;
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
    let agent = Agent::open_at(location)?;
    let interruption = Interruption::watch(&agent)?;
    let mut loaded = Vec::new();
    let mut failed = Failures::default();
    for path in &args.models {
        match load(args, &agent, path, &interruption) {
            Ok(model) => loaded.push((path.as_path(), model)),
            // The others are loaded all the same.
            Err(error) => failed.add(path, error),
        }
    }
    if args.hold {
        // Before the report is printed: its reader may send a signal.
        interruption.set_holding();
    }
    print(&loaded, &failed, location, out)?;
    failed.end()?;
    if args.hold {
        let keep = loaded
            .into_iter()
            .map(|(_, model)| model.into_references(&agent));
        let references: Vec<References> = keep.collect();
        interruption.hold();
        drop(references);
    }
    Ok(())
}

fn load(
    args: &LoadArgs,
    agent: &Agent,
    path: &Path,
    interruption: &Interruption,
) -> Result<Loaded> {
    let progress = interruption.begin("loading", path, Bar::of_load("loading", path));
    let options = LoadOptions::default()
        .with_prefault(args.prefault)
        .with_ignore_identity(args.rehash)
        .with_threads(args.threads)
        // A model named here should be in the store.
        .with_min_shared_bytes(0)
        .with_progress(progress);
    let kind = kind_of(path, args.whole_file);
    let loaded = Loaded::load(agent, path, kind, &options)?;
    interruption.end();
    Ok(loaded)
}

fn print(
    loaded: &[(&Path, Loaded)],
    failed: &Failures<'_>,
    location: &StoreLocation,
    out: &mut Output,
) -> Result {
    if out.is_json() {
        let models: Vec<_> = loaded
            .iter()
            .map(|(path, model)| model.to_json(path))
            .collect();
        out.json(&json!({
            "store": lossy(&location.dir),
            "store_because": location.choice.code(),
            "models": models,
            "errors": failed.to_json(),
        }))?;
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
                "not all of `{}` is in the store: {reason}{}",
                path.display(),
                model
                    .report()
                    .remedy(Words::CommandLine)
                    .map_or_else(String::new, |remedy| format!("; {remedy}")),
            ));
        }
    }
    for (path, model) in loaded {
        if model.stored_path().is_some() && is_torch_checkpoint(path) {
            output::warning(format_args!(
                "`{}` is a checkpoint of PyTorch, kept whole: torch.load never reads it from the store; save it as safetensors, or call `tetris.torch.share_module_` after loading it, and free this copy with `tetris gc`",
                path.display()
            ));
        }
    }
    out.flush()
}

fn table(loaded: &[(&Path, Loaded)]) -> Table {
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        ("KNOWN BY", Side::Left),
        right("SHARED"),
        right("NEW"),
        right("PRIVATE"),
        right("READ"),
        right("TIME"),
        // A long path ends the line: nothing wraps into the figures.
        ("MODEL", Side::Left),
    ]);
    for (path, model) in loaded {
        let report = model.report();
        table.row([
            recognized(report),
            Bytes(report.bytes_shared).to_string(),
            Bytes(report.bytes_new).to_string(),
            Bytes(report.bytes_private).to_string(),
            Bytes(report.bytes_read).to_string(),
            took(report.duration),
            path.display().to_string(),
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
