//! One pass.

use std::io::Write as _;

use crate::engine::commands::now_ms;
use crate::engine::{PassResult, Reclaimer};
use crate::report::{Amount, ErrorClass, StorePass, StoreStatus, Trigger};
use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};
use tetris_service_kit::command::Failure;
use tetris_store_layout::Holders;

use super::{Format, Once, exit, print_json};

pub(super) fn run(args: &Once) -> Result<()> {
    let config = args.config.load()?;
    let mut reclaimer = Reclaimer::new(config, args.dry_run, now_ms());
    let mut passed = reclaimer.pass(Trigger::Start, &[], now_ms());
    reclaimer.keep(now_ms());
    match Holders::read() {
        Ok(holders) => passed.status.count_holders(&holders),
        Err(error) => {
            tracing::warn!(%error, "holders are not counted");
            passed.report.errors.push((ErrorClass::Locks, None));
        }
    }
    match args.format {
        Format::Json => print_json(as_json(&passed))?,
        Format::Text => {
            let text = as_text(&passed);
            std::io::stdout().lock().write_all(text.as_bytes())?;
        }
    }
    if passed.report.errors.is_empty() {
        return Ok(());
    }
    let errors = passed.report.errors.len();
    let error = anyhow!("the pass was not complete: {errors} errors, see above");
    Err(Failure::new(exit::INCOMPLETE, error).into())
}

fn as_json(passed: &PassResult) -> Value {
    let stores = passed.report.stores.iter().map(|pass| {
        let freed: Map<String, Value> = pass
            .freed
            .iter()
            .map(|(reason, amount)| (reason.name().to_owned(), json!(amount)))
            .collect();
        json!({
            "store": pass.store,
            "freed": freed,
            "kept_by_lock": pass.kept_by_lock,
            "records_removed": pass.records_removed,
        })
    });
    let errors = passed.report.errors.iter();
    let errors = errors.map(|(class, store)| json!({"class": class.name(), "store": store}));
    json!({
        "dry_run": passed.status.dry_run,
        "passes": stores.collect::<Vec<_>>(),
        "errors": errors.collect::<Vec<_>>(),
        "status": passed.status,
    })
}

fn as_text(passed: &PassResult) -> String {
    let mut lines = Vec::new();
    for store in &passed.status.stores {
        let mut passes = passed.report.stores.iter();
        let pass = passes.find(|pass| pass.store == store.name);
        lines.extend(store_lines(store, pass, passed.status.dry_run));
    }
    for missed in &passed.status.shortfalls {
        lines.push(format!(
            "{}: {} bytes and {} inodes short of the goal `{}`: {} bytes are mapped, {} declared warm, {} within the keep-alive window, {} guaranteed; {}",
            missed.stores.join(", "),
            missed.missing_bytes,
            missed.missing_inodes,
            missed.goal,
            missed.held_bytes,
            missed.protected_bytes,
            missed.young_bytes,
            missed.guaranteed_bytes,
            missed.remedy,
        ));
    }
    lines.join("\n") + "\n"
}

fn store_lines(store: &StoreStatus, pass: Option<&StorePass>, dry_run: bool) -> Vec<String> {
    if let Some(error) = &store.error {
        return vec![format!("{}: {error}", store.name)];
    }
    let line = |what: &str, amount: &Amount, why: &str| {
        let (objects, bytes) = (amount.objects, amount.bytes);
        let line = format!("  {what:<12} {objects:>10} objects {bytes:>16} bytes  {why}");
        line.trim_end().to_owned()
    };
    let mut lines = vec![format!("{} ({})", store.name, store.path.display())];
    let states = store.states.iter();
    lines.extend(states.map(|(state, amount)| line(state.name(), amount, "")));
    let freed = if dry_run { "would free" } else { "freed" };
    let reasons = pass.into_iter().flat_map(|pass| &pass.freed);
    lines.extend(reasons.map(|(reason, amount)| line(freed, amount, reason.name())));
    let foreign = store.foreign.iter();
    lines.extend(foreign.map(|entry| format!("  foreign      {}: {}", entry.path, entry.reason)));
    lines
}
