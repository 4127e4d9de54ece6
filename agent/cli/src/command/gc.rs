//! `tetris gc`: one reclaim pass.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tetris_agent::gc::{GcOptions, GcReport, collect, collect_quarantined};
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
use super::output::Output;
use super::size::in_objects;
use tetris_agent::Store;
use tetris_agent::store_location::StoreLocation;

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Free only objects unused for at least DURATION: 10m, 1h 30m, 2days
    #[arg(long, value_name = "DURATION", value_parser = tetris_units::duration::parse)]
    older_than: Option<Duration>,
    /// Stop when SIZE is freed: 8GiB, 512M
    #[arg(long, value_name = "SIZE")]
    free: Option<Bytes>,
    /// Free damaged objects in quarantine, and nothing else; DURATION counts from their quarantine
    #[arg(long)]
    quarantined: bool,
    /// Only report the objects that would be freed
    #[arg(long)]
    dry_run: bool,
}

/// Runs `gc`.
pub(crate) fn run(args: &GcArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let store = location.open()?;
    if !args.dry_run {
        require_writable(&store)?;
    }
    let options = GcOptions::default()
        .with_older_than(args.older_than.unwrap_or_default())
        .with_enough_bytes(args.free.map(|bytes| bytes.0))
        .with_dry_run(args.dry_run);
    let report = if args.quarantined {
        collect_quarantined(&store, &options)?
    } else {
        collect(&store, &options)?
    };
    if out.is_json() {
        out.json(&json!({
            "dry_run": args.dry_run,
            "quarantined": args.quarantined,
            "freed_objects": report.freed_objects,
            "freed_bytes": report.freed_bytes,
            "referenced_objects": report.referenced_objects,
            "referenced_bytes": report.referenced_bytes,
            "kept_objects": report.kept_objects,
            "kept_bytes": report.kept_bytes,
            "failed_objects": report.failed_objects,
            "freed_records": report.freed_records,
        }))?;
        return require_complete(&report);
    }
    let freed = if args.dry_run { "would free" } else { "freed" };
    let mut fields = vec![
        (freed, in_objects(report.freed_bytes, report.freed_objects)),
        (
            "in use",
            in_objects(report.referenced_bytes, report.referenced_objects),
        ),
        ("kept", in_objects(report.kept_bytes, report.kept_objects)),
    ];
    if !args.dry_run && !args.quarantined {
        fields.push(("records removed", report.freed_records.to_string()));
    }
    out.fields(&fields)?;
    require_complete(&report)
}

/// An error if something could not be reclaimed.
fn require_complete(report: &GcReport) -> Result {
    if report.failed_objects == 0 {
        return Ok(());
    }
    Err(Error::message(
        Code::Failed,
        format_args!(
            "{} objects could not be reclaimed; the log says why",
            report.failed_objects
        ),
    ))
}

/// Refuses early what only the store's owner can do.
pub(crate) fn require_writable(store: &Store) -> Result {
    if store.is_writable() {
        return Ok(());
    }
    Err(Error::message(
        Code::Failed,
        format_args!(
            "the tensor store `{}` is read-only for this process; run this as its owner",
            store.root().display()
        ),
    ))
}
