//! `tetris ls`: the contents of the store.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tetris_agent::{ManifestKind, Store};
use tetris_store_layout::{DecodeError, IdentityBy, IdentityKey, ManifestId, ObjectEntry};
use tetris_units::size::Bytes;

use super::counts::HolderCounts;
use super::error::Result;
use super::layouts;
use super::loading::kind_name;
use super::lookup::short;
use super::model_row::{Manifests, ModelRow};
use super::output::{self, Output};
use super::present::Present;
use super::table::{Side, Table};
use super::time::{ago, unix_s};
use tetris_agent::store_location::StoreLocation;

/// Arguments of `ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    what: What,
    /// Order of the models: used (latest first), size, tensors, holders (most first) or path
    #[arg(
        long,
        value_enum,
        value_name = "FIELD",
        default_value_t,
        hide_possible_values = true
    )]
    sort: Sort,
    /// Reverse the order of the models
    #[arg(long)]
    reverse: bool,
}

/// Order of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Sort {
    /// The latest use first.
    #[default]
    Used,
    /// The most bytes first.
    Size,
    /// The most tensors first.
    Tensors,
    /// The most holders first.
    Holders,
    /// By the last path.
    Path,
}

/// Things to list; models by default.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct What {
    /// List models, one line per file; this is the default
    #[arg(long)]
    manifests: bool,
    /// List objects: tensors, packs of small tensors, whole files
    #[arg(long)]
    objects: bool,
    /// List results of transforms of tensors
    #[arg(long)]
    derived: bool,
    /// List layouts: what engines made of models
    #[arg(long)]
    layouts: bool,
    /// List identities, by which files are recognized without being read
    #[arg(long)]
    identities: bool,
    /// List damaged objects in quarantine
    #[arg(long)]
    quarantined: bool,
}

/// Runs `ls`.
pub(crate) fn run(args: &LsArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let store = location.open()?;
    if args.what.objects {
        objects(&store, out)
    } else if args.what.derived {
        derived(&store, out)
    } else if args.what.layouts {
        layouts::list(&store, out)
    } else if args.what.identities {
        identities(&store, out)
    } else if args.what.quarantined {
        quarantined(&store, out)
    } else {
        models(&store, args, out)
    }
}

fn models(store: &Store, args: &LsArgs, out: &mut Output) -> Result {
    let present = Present::of(store)?;
    let mut rows = ModelRow::all(store, &present, &mut Manifests::default())?;
    sort(&mut rows, args);
    let quarantined = store.quarantined()?.objects;
    let quarantined_bytes: u64 = quarantined.iter().map(|entry| entry.allocated).sum();
    if out.is_json() {
        let rows: Vec<Value> = rows.iter().map(ModelRow::document).collect();
        return out.json(&json!({
            "manifests": rows,
            "holder_counts": present.counts().word(),
            "quarantined": quarantined.len(),
            "quarantined_bytes": quarantined_bytes,
        }));
    }
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        ("MANIFEST", Side::Left),
        ("KIND", Side::Left),
        right("TENSORS"),
        right("BYTES"),
        right("IN STORE"),
        right("HOLDERS"),
        right("LAST USED"),
        ("LAST PATH", Side::Left),
    ]);
    for row in &rows {
        table.row([
            short(row.id),
            kind_name(row.manifest.kind).into(),
            row.manifest.tensors.len().to_string(),
            Bytes(row.manifest.object_bytes()).to_string(),
            Bytes(row.resident).to_string(),
            row.holders.to_string(),
            ago(row.last_used),
            row.path_in_words(),
        ]);
    }
    table.print(out, "no models; publish one with `tetris load MODEL`")?;
    out.flush()?;
    note_quarantined(quarantined.len() as u64, quarantined_bytes);
    present.counts().note();
    Ok(())
}

/// Sorts by the field asked for; equal ones by the last use, then by id.
fn sort(rows: &mut [ModelRow], args: &LsArgs) {
    rows.sort_by_key(|row| (Reverse(row.last_used), row.id));
    match args.sort {
        Sort::Used => {}
        Sort::Size => rows.sort_by_key(|row| Reverse(row.manifest.object_bytes())),
        Sort::Tensors => rows.sort_by_key(|row| Reverse(row.manifest.tensors.len())),
        Sort::Holders => rows.sort_by_key(|row| Reverse(row.holders)),
        // Models without a path come last.
        Sort::Path => rows.sort_by_cached_key(|row| {
            let path = row.last_path.as_ref().map(|last| last.path.clone());
            (path.is_none(), path)
        }),
    }
    if args.reverse {
        rows.reverse();
    }
}

/// Reports on stderr that objects in quarantine take memory, and the command that frees it.
pub(super) fn note_quarantined(objects: u64, bytes: u64) {
    if objects > 0 {
        output::note(format_args!(
            "{objects} damaged objects in quarantine keep {}; list them with `tetris ls --quarantined`, free them with `tetris gc --quarantined`",
            Bytes(bytes)
        ));
    }
}

fn quarantined(store: &Store, out: &mut Output) -> Result {
    let mut rows = store.quarantined()?.objects;
    let counts = HolderCounts::of_quarantined(store, &rows)?;
    rows.sort_by_key(|entry| (Reverse(entry.changed), entry.object.id));
    if out.is_json() {
        let row = |entry: &ObjectEntry| {
            json!({
                "id": entry.object.id.to_string(),
                "crc": format!("{:08x}", entry.object.crc),
                "bytes": entry.object.len,
                "allocated_bytes": entry.allocated,
                "holders": counts.number(entry),
                "quarantined_s": unix_s(entry.changed),
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        return out.json(&json!({ "quarantined": rows }));
    }
    let mut table = Table::new(&[
        ("OBJECT", Side::Left),
        ("BYTES", Side::Right),
        ("HOLDERS", Side::Right),
        ("QUARANTINED", Side::Right),
    ]);
    for entry in &rows {
        table.row([
            short(entry.object.id),
            Bytes(entry.object.len).to_string(),
            counts.number(entry).to_string(),
            ago(entry.changed),
        ]);
    }
    table.print(out, "no damaged objects in quarantine")?;
    out.flush()?;
    counts.note();
    Ok(())
}

fn objects(store: &Store, out: &mut Output) -> Result {
    let present = Present::of(store)?;
    let mut rows: Vec<&ObjectEntry> = present.entries().collect();
    rows.sort_by_key(|entry| (Reverse(entry.object.len), entry.object.id));
    if out.is_json() {
        let row = |entry: &&ObjectEntry| {
            json!({
                "id": entry.object.id.to_string(),
                "crc": format!("{:08x}", entry.object.crc),
                "bytes": entry.object.len,
                "allocated_bytes": entry.allocated,
                "holders": present.holders(&entry.object),
                "published_s": unix_s(entry.published),
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        return out.json(&json!({ "objects": rows }));
    }
    let mut table = Table::new(&[
        ("OBJECT", Side::Left),
        ("BYTES", Side::Right),
        ("HOLDERS", Side::Right),
        ("PUBLISHED", Side::Right),
    ]);
    for entry in rows {
        table.row([
            short(entry.object.id),
            Bytes(entry.object.len).to_string(),
            present.holders(&entry.object).to_string(),
            ago(entry.published),
        ]);
    }
    table.print(out, "no objects; publish some with `tetris load MODEL`")?;
    out.flush()?;
    present.counts().note();
    Ok(())
}

fn derived(store: &Store, out: &mut Output) -> Result {
    let mut rows = Vec::new();
    for record in store.derived_records()? {
        match store.derived_record(record.id) {
            Ok(Some(derived)) if !derived.is_layout() => rows.push((record, derived)),
            Ok(_) => {}
            Err(error) => output::warning(error),
        }
    }
    rows.sort_by_key(|(record, _)| (Reverse(record.last_used), record.id));
    if out.is_json() {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(record, derived)| {
                json!({
                    "id": record.id.to_string(),
                    "transform": derived.key.transform(),
                    "version": derived.key.version(),
                    "source": derived.key.source().to_string(),
                    "object": derived.object.id.to_string(),
                    "bytes": derived.object.len,
                    "in_store": store.contains(&derived.object),
                    "last_used_s": unix_s(record.last_used),
                })
            })
            .collect();
        return out.json(&json!({ "derived": rows }));
    }
    let mut table = Table::new(&[
        ("DERIVED", Side::Left),
        ("TRANSFORM", Side::Left),
        ("SOURCE", Side::Left),
        ("OBJECT", Side::Left),
        ("BYTES", Side::Right),
        ("LAST USED", Side::Right),
    ]);
    for (record, derived) in &rows {
        table.row([
            short(record.id),
            format!("{} v{}", derived.key.transform(), derived.key.version()),
            short(derived.key.source()),
            short(derived.object.id),
            Bytes(derived.object.len).to_string(),
            ago(record.last_used),
        ]);
    }
    table.print(out, "no derived objects")
}

fn identities(store: &Store, out: &mut Output) -> Result {
    let mut rows = Vec::new();
    for (id, bound) in store.identities()? {
        match bound {
            Ok((key, manifest)) => rows.push((id, key, manifest)),
            Err(DecodeError::Retired { .. }) => {}
            Err(error) => output::warning(format_args!("identity {id} is damaged: {error}")),
        }
    }
    rows.sort_by_key(|(id, _, manifest)| (*manifest, *id));
    if out.is_json() {
        let row = |(id, key, manifest): &(_, IdentityKey, ManifestId)| {
            let id: &tetris_store_layout::IdentityId = id;
            json!({
                "id": id.to_string(),
                "kind": kind_name(key.kind),
                "manifest": manifest.to_string(),
                "by": identity_json(&key.by),
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        return out.json(&json!({ "identities": rows }));
    }
    let mut table = Table::new(&[
        ("MANIFEST", Side::Left),
        ("KIND", Side::Left),
        ("BYTES", Side::Right),
        ("KNOWN BY", Side::Left),
    ]);
    for (_, key, manifest) in &rows {
        let (bytes, by) = identity_text(&key.by);
        let kind: ManifestKind = key.kind;
        table.row([
            short(manifest),
            kind_name(kind).into(),
            Bytes(bytes).to_string(),
            by,
        ]);
    }
    table.print(
        out,
        "no files are known; publish one with `tetris load MODEL`",
    )
}

fn identity_json(by: &IdentityBy) -> Value {
    match by {
        IdentityBy::Stat { file, system } => json!({
            "stat": {
                "file_system": format!("{:#x}", system.magic),
                "fsid": format!("{:016x}", system.id),
                "instance": format!("{:016x}", system.instance),
                "dev": file.dev,
                "ino": file.ino,
                "bytes": file.size,
                "mtime_s": file.mtime.0,
                "mtime_ns": file.mtime.1,
                "ctime_s": file.ctime.0,
                "ctime_ns": file.ctime.1,
            }
        }),
        IdentityBy::Sha256 { digest, size } => {
            json!({ "sha256": { "digest": hex(digest), "bytes": size } })
        }
        IdentityBy::Source { digest, size } => {
            json!({ "source": { "digest": hex(digest), "bytes": size } })
        }
    }
}

fn identity_text(by: &IdentityBy) -> (u64, String) {
    match by {
        IdentityBy::Stat { file, .. } => {
            let (dev, ino) = (file.dev, file.ino);
            let (major, minor) = (nix::sys::stat::major(dev), nix::sys::stat::minor(dev));
            (file.size, format!("inode {ino} on device {major}:{minor}"))
        }
        IdentityBy::Sha256 { digest, size } => (*size, format!("sha256 {}", short(hex(digest)))),
        IdentityBy::Source { digest, size } => (*size, format!("source {}", short(hex(digest)))),
    }
}

fn hex(digest: &[u8; 32]) -> String {
    tetris_store_layout::Digest(*digest).to_string()
}
