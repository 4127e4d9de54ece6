//! `tetris verify`: checks that the bytes in the store match their names.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_cli::holders::{HolderProcess, HolderProcesses};
use tetris_store_layout::{
    DecodeError, Holders, ObjectEntry, ObjectRef, StoreError, Verified, VerifyDepth,
};
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
use super::gc::require_writable;
use super::holding;
use super::lookup::{self, StoreEntry};
use super::output::{self, Output, bad, good};
use super::progress::Bar;
use super::size::counted;
use tetris_agent::store_location::StoreLocation;

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// First digits of ids, at least 4, of objects, or of manifests for all their objects [default:
    /// everything]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Compare CRC-32 only: about twice as fast, misses one damage in 4 billion
    #[arg(long)]
    quick: bool,
    /// Quarantine damaged objects, so that the next load publishes them anew, and remove damaged
    /// records, which only cost a reading of the model
    #[arg(long)]
    quarantine: bool,
}

/// Something that is not what it should be.
#[derive(Debug)]
struct Damage {
    kind: &'static str,
    id: String,
    fault: String,
    holders: u64,
    action: &'static str,
    /// The object, if it is one.
    object: Option<ObjectRef>,
}

/// The result of one object's check.
enum Checked {
    Sound,
    Damaged(Damage),
    /// A process holds a lease on it.
    Leased,
}

/// The findings of a run.
#[derive(Debug, Default)]
struct Findings {
    objects: u64,
    bytes: u64,
    records: u64,
    damaged: Vec<Damage>,
    /// Files that could not be checked: processes hold leases on them.
    leased: Vec<PathBuf>,
    /// The processes that hold damaged objects.
    processes: HolderProcesses,
}

impl Findings {
    /// The processes that hold a damaged object: they compute with wrong bytes.
    fn holding<'a>(&'a self, damage: &'a Damage) -> impl Iterator<Item = &'a HolderProcess> {
        let object = damage.object.as_ref();
        let users = object.map(|object| self.processes.of(object));
        users.into_iter().flatten()
    }
}

/// Runs `verify`.
pub(crate) fn run(args: &VerifyArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let store = location.open()?;
    if args.quarantine {
        require_writable(&store)?;
    }
    let mut findings = Findings::default();
    let objects = chosen(&store, &args.ids)?;
    check_objects(&store, args, &objects, &mut findings)?;
    if args.ids.is_empty() {
        check_records(&store, args.quarantine, &mut findings)?;
        for entry in store.objects()?.foreign {
            let (name, reason) = (entry.name.display(), entry.reason);
            output::warning(format_args!(
                "not an object, left alone: `{name}`: {reason}"
            ));
        }
    }
    findings.processes = holding::search(&held_and_damaged(&store, &findings)?)?;
    print(&findings, out)?;
    out.flush()?;
    holding::note_unseen(&findings.processes);
    if findings.damaged.is_empty() {
        return all_checked(&findings.leased);
    }
    let step = if args.quarantine {
        "load the models again, restart the processes that hold damaged objects, and free these with `tetris gc --quarantined`; memory that loses bits may be failing"
    } else {
        "quarantine it with `tetris verify --quarantine`"
    };
    Err(Error::message(
        Code::Damage,
        format_args!("found {} damaged; {step}", findings.damaged.len()),
    ))
}

/// Returns an error that names the files that were not checked, if there are any.
fn all_checked(leased: &[PathBuf]) -> Result {
    if leased.is_empty() {
        return Ok(());
    }
    let paths: Vec<String> = leased
        .iter()
        .map(|path| format!("`{}`", path.display()))
        .collect();
    Err(Error::message(
        Code::Failed,
        format_args!(
            "not checked, since processes hold leases on them: {}; on the node, `grep LEASE /proc/locks` gives their ids: end them",
            paths.join(", ")
        ),
    ))
}

/// The damaged objects that are held, wherever they are now.
fn held_and_damaged(store: &Store, findings: &Findings) -> Result<Vec<ObjectEntry>> {
    let damaged = findings.damaged.iter().filter(|damage| damage.holders > 0);
    let objects: Vec<ObjectRef> = damaged.filter_map(|damage| damage.object).collect();
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let mut entries = store.objects()?.objects;
    entries.extend(store.quarantined()?.objects);
    entries.retain(|entry| objects.contains(&entry.object));
    Ok(entries)
}

/// The objects to check, the largest first so that all cores end at about the same time.
fn chosen(store: &Store, ids: &[String]) -> Result<Vec<ObjectEntry>> {
    let all = store.objects()?.objects;
    let mut objects = if ids.is_empty() {
        all.clone()
    } else {
        Vec::new()
    };
    for id in ids {
        match lookup::find(store, id)? {
            StoreEntry::Object(entry) => objects.push(entry),
            StoreEntry::Manifest(id) => {
                let manifest = lookup::manifest(store, id)?;
                let named: Vec<ObjectRef> = manifest.objects.iter().map(|e| e.object).collect();
                // By id: damage may have changed the length.
                let of_model = |entry: &&ObjectEntry| named.iter().any(|o| o.id == entry.object.id);
                objects.extend(all.iter().filter(of_model));
            }
            StoreEntry::Derived(_) => {
                return Err(Error::message(
                    Code::Usage,
                    format_args!(
                        "`{id}` is a derived record; name its object, which `tetris show {id}` tells"
                    ),
                ));
            }
        }
    }
    objects.sort_by_key(|entry| (std::cmp::Reverse(entry.object.len), entry.object.id));
    objects.dedup();
    Ok(objects)
}

fn check_objects(
    store: &Store,
    args: &VerifyArgs,
    objects: &[ObjectEntry],
    findings: &mut Findings,
) -> Result {
    let depth = if args.quick {
        VerifyDepth::Crc
    } else {
        VerifyDepth::Full
    };
    let holders = Holders::read()?;
    let bar = Bar::new(
        "verifying",
        objects.iter().map(|entry| entry.object.len).sum(),
    );
    let next = AtomicUsize::new(0);
    let done = Mutex::new((findings, Ok(())));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let work = || {
        while let Some(entry) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let checked = check_object(store, entry, depth, args.quarantine, &holders);
            bar.add(entry.object.len);
            let Ok(mut done) = done.lock() else { return };
            match checked {
                Ok(Checked::Leased) => done.0.leased.push(store.object_path(&entry.object)),
                Ok(checked) => {
                    done.0.objects += 1;
                    done.0.bytes += entry.object.len;
                    if let Checked::Damaged(damage) = checked {
                        done.0.damaged.push(damage);
                    }
                }
                Err(error) => done.1 = Err(error),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(objects.len()) {
            scope.spawn(work);
        }
    });
    match done.into_inner() {
        Ok((findings, result)) => {
            findings.damaged.sort_by(|a, b| a.id.cmp(&b.id));
            result
        }
        Err(_) => Err(Error::message(
            Code::Failed,
            "a thread that verified ended early",
        )),
    }
}

fn check_object(
    store: &Store,
    entry: &ObjectEntry,
    depth: VerifyDepth,
    quarantine: bool,
    holders: &Holders,
) -> Result<Checked> {
    let fault = match store.verify(&entry.object, depth)? {
        Verified::Damaged(fault) => fault,
        Verified::Leased => return Ok(Checked::Leased),
        Verified::Sound | Verified::Absent | Verified::Stopped => return Ok(Checked::Sound),
    };
    let action = if quarantine && store.quarantine(&entry.object)? {
        "quarantined"
    } else {
        "left in place"
    };
    Ok(Checked::Damaged(Damage {
        kind: "object",
        id: entry.object.id.to_string(),
        fault: fault.to_string(),
        holders: holders.of(entry),
        action,
        object: Some(entry.object),
    }))
}

fn check_records(store: &Store, remove: bool, findings: &mut Findings) -> Result {
    let mut damage = |kind, id: String, fault: String, removed: Result<bool>| {
        let action = if removed? { "removed" } else { "left in place" };
        findings.damaged.push(Damage {
            kind,
            id,
            fault,
            holders: 0,
            action,
            object: None,
        });
        Ok::<(), Error>(())
    };
    let (mut records, mut leased) = (0, Vec::new());
    for record in store.manifests()? {
        records += 1;
        if let Some(fault) = fault_of(store.manifest(record.id), &mut leased)? {
            let removed = remove_if(remove, || store.remove_manifest(record.id));
            damage("manifest", record.id.to_string(), fault, removed)?;
        }
    }
    for record in store.derived_records()? {
        records += 1;
        if let Some(fault) = fault_of(store.derived_record(record.id), &mut leased)? {
            let removed = remove_if(remove, || store.remove_derived(record.id));
            damage("derived", record.id.to_string(), fault, removed)?;
        }
    }
    for (id, bound) in store.identities()? {
        records += 1;
        // Never used again, and no damage.
        if let Err(fault) = bound
            && !matches!(fault, DecodeError::Retired { .. })
        {
            let removed = remove_if(remove, || store.remove_identity(id));
            damage("identity", id.to_string(), fault.to_string(), removed)?;
        }
    }
    findings.records = records;
    findings.leased.extend(leased);
    Ok(())
}

fn remove_if(remove: bool, removal: impl FnOnce() -> Result<bool, StoreError>) -> Result<bool> {
    Ok(remove && removal()?)
}

/// The damage of a record, if that and not the reading failed.
fn fault_of<T>(record: Result<T, StoreError>, leased: &mut Vec<PathBuf>) -> Result<Option<String>> {
    match record {
        Ok(_) => Ok(None),
        Err(StoreError::Io(error)) if error.is_leased() => {
            leased.push(error.path);
            Ok(None)
        }
        Err(StoreError::Record { source, .. }) => Ok(Some(source.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn print(findings: &Findings, out: &mut Output) -> Result {
    if out.is_json() {
        let damaged: Vec<Value> = findings
            .damaged
            .iter()
            .map(|damage| {
                json!({
                    "kind": damage.kind,
                    "id": damage.id,
                    "fault": damage.fault,
                    "holders": damage.holders,
                    "action": damage.action,
                    "processes": holding::documents(findings.holding(damage)),
                })
            })
            .collect();
        return out.json(&json!({
            "objects": findings.objects,
            "bytes": findings.bytes,
            "records": findings.records,
            "damaged": damaged,
            "processes_hidden": findings.processes.hidden,
            "processes_skipped": findings.processes.skipped,
        }));
    }
    for damage in &findings.damaged {
        let head = bad(format_args!("damaged {}", damage.kind));
        out.line(format_args!("{head} {}", damage.id))?;
        out.line(format_args!("  {}", damage.fault))?;
        let holders = damage.holders;
        out.line(format_args!("  {holders} holders, {}", damage.action))?;
        for process in findings.holding(damage) {
            let process = holding::in_words(process);
            out.line(format_args!("  held by {}", output::printable(&process)))?;
        }
    }
    let checked = format!(
        "{} ({}) and {}",
        counted(findings.objects, "object"),
        Bytes(findings.bytes),
        counted(findings.records, "record")
    );
    match findings.damaged.len() {
        0 => out.line(format_args!("{} {checked}", good("sound:"))),
        _ => out.line(format_args!("checked {checked}")),
    }
}
