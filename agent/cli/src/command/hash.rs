//! `tetris hash`: write the sidecar beside each file of a model.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::{Agent, LoadOptions, ManifestKind, sidecar};
use tetris_units::size::Bytes;

use super::error::Result;
use super::failures::Failures;
use super::loading::lossy;
use super::lookup::short;
use super::output::Output;
use super::progress::Bar;
use super::table::{Side, Table};
use tetris_agent::store_location::StoreLocation;

/// Arguments of `hash`.
#[derive(Debug, Args)]
pub(crate) struct HashArgs {
    /// Safetensors files, or directories as Hugging Face lays them out
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Take the manifest of a known file from the store, instead of reading the file
    #[arg(long)]
    trust_store: bool,
    /// Only report the contents of the sidecars
    #[arg(long)]
    dry_run: bool,
}

/// A hashed file.
struct Hashed {
    file: PathBuf,
    sidecar: Option<PathBuf>,
    id: String,
    tensors: usize,
    bytes: u64,
}

/// Runs `hash`.
pub(crate) fn run(args: &HashArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let agent = if args.trust_store {
        Agent::with_store(location.open()?)
    } else {
        Agent::without_store()
    };
    let mut hashed = Vec::new();
    let mut failed = Failures::default();
    for model in &args.models {
        if let Err(error) = hash(args, &agent, model, &mut hashed) {
            failed.add(model, error);
        }
    }
    print(&hashed, &failed, out)?;
    failed.end()
}

fn hash(args: &HashArgs, agent: &Agent, model: &Path, hashed: &mut Vec<Hashed>) -> Result {
    let options = LoadOptions::default()
        .with_ignore_identity(!args.trust_store)
        .with_progress(Bar::of_load("hashing", model));
    for (file, manifest) in agent.manifests(model, ManifestKind::Safetensors, &options)? {
        let sidecar = if args.dry_run {
            None
        } else {
            Some(sidecar::write(&file, &manifest)?)
        };
        hashed.push(Hashed {
            file,
            sidecar,
            id: manifest.id().to_string(),
            tensors: manifest.tensors.len(),
            bytes: manifest.source_size,
        });
    }
    Ok(())
}

fn print(hashed: &[Hashed], failed: &Failures<'_>, out: &mut Output) -> Result {
    if out.is_json() {
        let files: Vec<Value> = hashed
            .iter()
            .map(|file| {
                json!({
                    "file": lossy(&file.file),
                    "sidecar": file.sidecar.as_deref().map(lossy),
                    "manifest": file.id,
                    "tensors": file.tensors,
                    "bytes": file.bytes,
                })
            })
            .collect();
        return out.json(&json!({ "files": files, "errors": failed.to_json() }));
    }
    if hashed.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("MANIFEST", Side::Left),
        ("TENSORS", Side::Right),
        ("BYTES", Side::Right),
        ("SIDECAR", Side::Left),
    ]);
    for file in hashed {
        let would_be = sidecar::path_of(&file.file);
        let written = match &file.sidecar {
            Some(path) => path.display().to_string(),
            None => format!("{} (not written)", would_be.display()),
        };
        table.row([
            short(&file.id),
            file.tensors.to_string(),
            Bytes(file.bytes).to_string(),
            written,
        ]);
    }
    table.print(out, "")
}
