//! Output of a profile as a table, JSON or YAML.

use std::io::{Write as _, stdout};

use anyhow::{Context, Result};
use tetris_conventions::text_table::{TextTable, wrap};

use super::args::{Format, ProfileArgs};
use crate::database::StoredProfile;
use crate::measurement::Measurement;
use crate::session::{Fate, SessionOutcome};

/// Writes a profile to the outputs that the arguments name.
pub(super) fn write(args: &ProfileArgs, outcome: &SessionOutcome) -> Result<()> {
    let manifest = outcome.manifest();
    let text = |format| match format {
        Format::Table => Ok(table(outcome)),
        Format::Json => Ok(serde_json::to_string_pretty(&manifest)? + "\n"),
        Format::Yaml => serde_saphyr::to_string(&manifest).context("cannot write YAML"),
    };
    if let Some(path) = &args.output {
        let format = if args.format == Format::Json {
            Format::Json
        } else {
            Format::Yaml
        };
        std::fs::write(path, text(format)?)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        if args.format != Format::Table {
            return Ok(());
        }
    }
    print(&text(args.format)?)
}

/// Prints a table of profiles.
pub(super) fn list(profiles: &[(String, StoredProfile, usize)]) -> Result<()> {
    let header = [
        "profile",
        "model",
        "#configu-\nrations",
        "#shared\nMiB",
        "measured",
        "machine",
    ];
    let mut table = TextTable::new(1, header);
    for (name, profile, count) in profiles {
        table.add(vec![
            name.clone(),
            profile.model.clone(),
            count.to_string(),
            mib(profile.shared.bytes()),
            profile.at.clone(),
            profile.machine.processor.clone(),
        ]);
    }
    print(&format!("{}\n", table.format()))
}

fn table(outcome: &SessionOutcome) -> String {
    let header = [
        "configuration",
        "#CPUs",
        "#own\nMiB",
        "#p50\nms",
        "+p90\nms",
        "+p95\nms",
        "+p99\nms",
        "#requests/s",
        "#errors",
    ];
    let mut table = TextTable::new(1, header);
    for measurement in outcome.measured() {
        table.add(row(measurement));
    }
    let mut text = format!("{}\n\n", table.format());
    text.push_str(&shared_line(outcome));
    let fates = outcome.fates.iter();
    text.extend(fates.filter_map(|(setting, fate)| {
        let why = match fate {
            Fate::Measured(_) => return None,
            Fate::RuledOut(why) => format!("not measured, {why}"),
            Fate::OutOfTime => "not measured, the time of --budget-seconds was over".to_owned(),
            Fate::Failed(why) => format!("failed, {why}"),
        };
        Some(wrap(&format!("{}: {why}", setting.name()), 2) + "\n")
    }));
    text
}

fn shared_line(outcome: &SessionOutcome) -> String {
    let (profile, shared) = (&outcome.profile, &outcome.profile.shared);
    let unverified = outcome.measured().any(|entry| !entry.verified);
    let note = if unverified {
        "; private memory was not verified under a limit"
    } else {
        ""
    };
    let mapped = format!(
        "{}: {} MiB shared, objects: {}, manifests: {}{note}",
        profile.model,
        mib(shared.bytes()),
        shared.len(),
        shared.manifests().len(),
    );
    let measured = format!(
        "measured {} on {}, {} CPUs",
        profile.at, profile.machine.processor, profile.machine.cpus,
    );
    [mapped, measured]
        .map(|line| wrap(&line, 2) + "\n")
        .concat()
}

fn row(one: &Measurement) -> Vec<String> {
    let ms = |micros: u64| format!("{:.1}", micros as f64 / 1_000.0);
    vec![
        one.setting.name(),
        format!("{}", one.setting.cpu_millis as f64 / 1_000.0),
        mib(one.own_bytes),
        ms(one.latency.p50),
        ms(one.latency.p90),
        ms(one.latency.p95),
        ms(one.latency.p99),
        format!("{:.1}", one.requests_per_second),
        one.errors.to_string(),
    ]
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn print(text: &str) -> Result<()> {
    stdout()
        .lock()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")
}
