//! `tetris rm`: removes models.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_agent::daemon::DaemonClient;
use tetris_agent::remove::{RemoveReport, Sharer, by_last_path, known_models, remove_models};
use tetris_agent::store_location::StoreLocation;
use tetris_cli::holders::HolderProcesses;
use tetris_store_layout::{LastPath, ManifestId};

use super::error::{Error, Result};
use super::exit::Code;
use super::gc::require_writable;
use super::holding;
use super::loading::lossy;
use super::lookup::{self, StoreEntry, short};
use super::model_row;
use super::output::{Output, printable};
use super::size::in_objects;

/// Longest wait for the node daemon.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most models that a line or an error lists.
const SHOWN: usize = 10;

/// Arguments of `rm`.
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// Models: a file or directory, the path by which they were last loaded, or the first digits of a
    /// manifest's id, at least 4
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Remove models even if pods of this node declare them warm
    #[arg(long)]
    force: bool,
    /// Only report what would be freed, and what would stay
    #[arg(long)]
    dry_run: bool,
}

/// A removal as it is printed.
struct Removal {
    report: RemoveReport,
    /// The models with their last paths, which go with them.
    models: Vec<(ManifestId, Option<LastPath>)>,
    found: HolderProcesses,
    dry_run: bool,
}

/// Runs `rm`.
pub(crate) fn run(args: &RmArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let store = location.open()?;
    if !args.dry_run {
        require_writable(&store)?;
    }
    // All names first: a wrong one removes nothing.
    let mut ids = BTreeSet::new();
    for name in &args.models {
        ids.extend(models_called(&store, name)?);
    }
    if !args.force {
        require_not_warm(&store, &ids)?;
    }
    let models = ids.iter().map(|id| (*id, store.last_path(*id))).collect();
    let report = remove_models(&store, &ids, args.dry_run)?;
    let removal = Removal {
        found: holding::search(&report.held)?,
        report,
        models,
        dry_run: args.dry_run,
    };
    if out.is_json() {
        out.json(&removal.document())?;
    } else {
        removal.print(out)?;
    }
    out.flush()?;
    holding::note_unseen(&removal.found);
    removal.require_complete()
}

/// Refuses models that the node daemon keeps warm for pods.
fn require_not_warm(store: &Store, ids: &BTreeSet<ManifestId>) -> Result {
    let refused = |message: String| Err(Error::message(Code::Failed, message));
    match DaemonClient::of_store(store, PATIENCE).declared_warm(ids) {
        Ok(warm) if warm.is_empty() => Ok(()),
        Ok(warm) => {
            let shown: Vec<_> = warm.iter().take(SHOWN).map(short).collect();
            refused(format!(
                "{} of the models are declared warm by pods of this node: {}; remove the declaration, or use --force",
                warm.len(),
                shown.join(", ")
            ))
        }
        Err(error) => refused(format!(
            "cannot ask the node daemon if it keeps the models warm: {error}; use --force to remove them even so"
        )),
    }
}

/// The models that `name` means. Nothing is hashed.
fn models_called(store: &Store, name: &Path) -> Result<BTreeSet<ManifestId>> {
    if name.exists() {
        let known = known_models(store, name);
        if let Ok(known) = &known
            && !known.is_empty()
        {
            return Ok(known.clone());
        }
        let hinted = hinted(store, name)?;
        if hinted.is_empty() {
            known?;
            return Err(Error::message(
                Code::Model,
                format_args!(
                    "the store `{}` does not know the model `{}`; list its models with `tetris ls`",
                    store.root().display(),
                    name.display()
                ),
            ));
        }
        return Ok(hinted);
    }
    let hinted = hinted(store, name)?;
    if !hinted.is_empty() {
        return Ok(hinted);
    }
    match lookup::find(store, &name.to_string_lossy())? {
        StoreEntry::Manifest(id) => Ok(BTreeSet::from([id])),
        other => Err(Error::message(
            Code::Model,
            format_args!(
                "expected a model, found {}; `tetris gc` frees objects that nobody maps",
                other.describe()
            ),
        )),
    }
}

/// The models with this last path, or one below it. Several with one path are distinguished by their ids.
fn hinted(store: &Store, name: &Path) -> Result<BTreeSet<ManifestId>> {
    let models = by_last_path(store, name)?;
    let twice = models.windows(2).find_map(|pair| match pair {
        [one, other] if one.1.path == other.1.path => Some(&one.1.path),
        _ => None,
    });
    let Some(path) = twice else {
        return Ok(models.into_iter().map(|(id, _)| id).collect());
    };
    let same = models.iter().filter(|(_, last)| last.path == *path);
    let lines: Vec<String> = same
        .take(SHOWN)
        .map(|(id, last)| format!("{id} {}", model_row::in_words(Some(last))))
        .collect();
    Err(Error::message(
        Code::Failed,
        format_args!(
            "several models were last loaded by `{}`; name one by its id:\n  {}",
            printable(&path.to_string_lossy()),
            printable_lines(&lines)
        ),
    ))
}

fn printable_lines(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
    lines.join("\n  ")
}

impl Removal {
    fn print(&self, out: &mut Output) -> Result {
        let report = &self.report;
        for (id, path) in &self.models {
            let verb = match (report.models.get(id), self.dry_run) {
                (Some(true), false) => "removed",
                (Some(true), true) => "would remove",
                _ => "in use",
            };
            let path = model_row::in_words(path.as_ref());
            out.line(format_args!("{verb} {} {}", short(id), printable(&path)))?;
        }
        let freed = if self.dry_run { "would free" } else { "freed" };
        let mut fields = vec![(freed, in_objects(report.freed_bytes, report.freed_objects))];
        if !report.held.is_empty() {
            let in_use = in_objects(self.held_bytes(), report.held.len() as u64);
            fields.push((
                "in use",
                format!("{in_use} stay until the processes below end"),
            ));
        }
        if !report.shared.is_empty() {
            let shared = in_objects(self.shared_bytes(), report.shared.len() as u64);
            fields.push(("shared", format!("{shared} stay for {}", self.sharers())));
        }
        out.fields(&fields)?;
        holding::print(self.found.processes.iter(), out)
    }

    fn held_bytes(&self) -> u64 {
        self.report.held.iter().map(|entry| entry.object.len).sum()
    }

    fn shared_bytes(&self) -> u64 {
        let shared = self.report.shared.iter();
        shared.map(|(object, _)| object.len).sum()
    }

    /// Ids of the other models that share objects.
    fn shared_with(&self) -> BTreeSet<ManifestId> {
        let sharers = self.report.shared.iter().flat_map(|(_, sharers)| sharers);
        let models = sharers.filter_map(|sharer| match sharer {
            Sharer::Model(id) => Some(*id),
            _ => None,
        });
        models.collect()
    }

    fn sharers(&self) -> String {
        let models = self.shared_with();
        if models.is_empty() {
            return "tensors derived from other models".to_owned();
        }
        let shown: Vec<_> = models.iter().take(SHOWN).map(short).collect();
        let more = match models.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("other models: {}{more}", shown.join(", "))
    }

    fn document(&self) -> Value {
        let report = &self.report;
        let models: Vec<Value> = self
            .models
            .iter()
            .map(|(id, path)| {
                json!({
                    "id": id.to_string(),
                    "last_path": path.as_ref().map(|last| lossy(&last.path)),
                    "removed": report.models.get(id).copied().unwrap_or_default(),
                })
            })
            .collect();
        let shared_with: Vec<_> = self.shared_with().iter().map(ToString::to_string).collect();
        json!({
            "dry_run": self.dry_run,
            "models": models,
            "freed_objects": report.freed_objects,
            "freed_bytes": report.freed_bytes,
            "freed_records": report.freed_records,
            "held_objects": report.held.len(),
            "held_bytes": self.held_bytes(),
            "shared_objects": report.shared.len(),
            "shared_bytes": self.shared_bytes(),
            "shared_with": shared_with,
            "failed_objects": report.failed_objects,
            "processes": holding::documents(self.found.processes.iter()),
            "processes_hidden": self.found.hidden,
            "processes_skipped": self.found.skipped,
        })
    }

    /// An error if something of the models stays for another reason than sharing.
    fn require_complete(&self) -> Result {
        if self.report.failed_objects > 0 {
            return Err(Error::message(
                Code::Failed,
                format_args!(
                    "{} objects could not be reclaimed; the log says why",
                    self.report.failed_objects
                ),
            ));
        }
        let in_use = self.report.models.values().filter(|gone| !**gone).count();
        if in_use == 0 {
            return Ok(());
        }
        Err(Error::message(
            Code::Failed,
            format_args!(
                "{in_use} of {} models are in use and stay; end the processes that hold them, then run this again",
                self.models.len()
            ),
        ))
    }
}
