//! Tables for a terminal.

use super::legend::TERMS;
use crate::data::{CountEnd, DensityOfMethod, MethodReport, Outcome, Report, WorkloadReport};
use crate::methods::Method;
use crate::units::{bytes, nanoseconds, signed_bytes, three_digits};
use tetris_conventions::text_table::{self, TextTable, entry, wrap};

/// Columns of the memory table after those of the sizes.
const MEMORY: [&str; 4] = [
    "#each further",
    "#MemAvailable",
    "#2 MiB pages",
    "#page tables",
];
/// Columns of the table of starts after the method.
const STARTS: [&str; 9] = [
    "files",
    "#attach",
    "+p95",
    "#touch",
    "+p95",
    "#first result",
    "+p95",
    "#pass",
    "+/ private",
];
/// Columns of the table of instances under a limit after the method.
const LIMIT: [&str; 3] = ["#instances", "#peak", "ended by"];

/// Formats the meanings of the methods and of the words in the tables.
pub fn legend(methods: &[Method]) -> String {
    let mut lines = vec!["Methods:".to_owned()];
    lines.extend(
        methods
            .iter()
            .map(|method| entry(method.name(), method.description())),
    );
    let terms = TERMS.iter();
    lines.push(text_table::legend(
        terms.map(|term| (term.words.join(", "), term.meaning)),
    ));
    lines.join("\n")
}

/// Formats the tables of one group.
pub fn workload(report: &WorkloadReport) -> String {
    let mut lines = vec![
        String::new(),
        wrap(&format!("{}: {}", report.name, report.description), 2),
    ];
    lines.extend(report.models.iter().map(|model| {
        format!(
            "  {} ({}, {} tensors)",
            model.name,
            bytes(model.tensor_bytes),
            model.tensors
        )
    }));
    if let Some(distinct) = report.distinct_bytes {
        lines.push(format!(
            "  {} of different tensors in all files",
            bytes(distinct)
        ));
    }
    lines.extend(sharing(report));
    lines.push(memory(report));
    lines.push(starts(report));
    lines.extend(report.methods.iter().flat_map(remarks));
    if let Some(density) = &report.density {
        lines.push(format!(
            "Instances that fit under a limit of {}:",
            bytes(density.budget_bytes)
        ));
        let mut table = TextTable::new(1, ["method"].iter().chain(&LIMIT));
        for entry in &density.methods {
            table.add(vec![
                entry.method.name().to_owned(),
                fits(entry),
                peak(entry),
                ended(entry),
            ]);
        }
        lines.push(table.format());
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Formats the common part of each variant and the base; `None` without a base.
fn sharing(report: &WorkloadReport) -> Option<String> {
    if report.sharing.is_empty() {
        return None;
    }
    let header = [
        "variant",
        "#tensors",
        "#of them in the base",
        "+part",
        "#its own",
    ];
    let mut table = TextTable::new(1, header);
    for part in &report.sharing {
        table.add(vec![
            part.variant.clone(),
            bytes(part.tensor_bytes),
            bytes(part.shared_bytes),
            percent(part.shared_bytes, part.tensor_bytes),
            bytes(part.tensor_bytes - part.shared_bytes),
        ]);
    }
    Some(table.format())
}

/// Formats a part of a whole in percent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// Physical memory over instances, one row per method.
fn memory(report: &WorkloadReport) -> String {
    let mut sizes: Vec<usize> = report
        .methods
        .iter()
        .flat_map(|method| &method.group)
        .map(|point| point.instances)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut header = vec!["memory of the group".to_owned()];
    header.extend(sizes.iter().map(|size| format!("#{size} inst.")));
    header.extend(MEMORY.map(str::to_owned));
    let mut table = TextTable::new(1, header);
    for method in report
        .methods
        .iter()
        .filter(|method| !method.group.is_empty())
    {
        let mut row = vec![method.method.name().to_owned()];
        row.extend(sizes.iter().map(|&size| {
            let point = method.group.iter().find(|point| point.instances == size);
            point.map_or_else(String::new, |point| bytes(point.group_bytes))
        }));
        row.push(
            method
                .marginal_bytes
                .map_or_else(String::new, |value| signed_bytes(value as i64)),
        );
        let last = method.group.last();
        row.push(last.map_or_else(String::new, |point| {
            signed_bytes(-point.available_drop_bytes)
        }));
        row.push(last.map_or_else(String::new, |point| {
            format!("{:.0} %", point.large_pages_percent())
        }));
        row.push(last.map_or_else(String::new, |point| bytes(point.processes.page_tables)));
        table.add(row);
    }
    table.format()
}

/// Start and pass times, one row per method, with repeated starts where there are any.
fn starts(report: &WorkloadReport) -> String {
    let mut table = TextTable::new(2, ["start"].iter().chain(&STARTS));
    for method in &report.methods {
        let inference = report
            .inference
            .iter()
            .find(|samples| samples.method == method.method);
        let kinds = [("new", &method.first), ("seen", &method.repeated)];
        for (kind, summary) in kinds {
            let Some(summary) = summary else { continue };
            let mut row = vec![method.method.name().to_owned(), kind.to_owned()];
            for times in [
                &summary.attach_ns,
                &summary.touch_ns,
                &summary.first_result_ns,
            ] {
                row.push(nanoseconds(times.median));
                row.push(nanoseconds(times.p95));
            }
            let pass = inference
                .and_then(|samples| samples.summary.as_ref())
                .map(|summary| summary.median);
            let times: Vec<f64> = method.pass_ns.iter().map(|&time| time as f64).collect();
            row.push(
                pass.or_else(|| tetris_test_support::stats::median(&times))
                    .map_or_else(String::new, nanoseconds),
            );
            let ratio = inference.and_then(|samples| samples.ratio_to_private);
            row.push(ratio.map_or_else(String::new, three_digits));
            table.add(row);
        }
    }
    table.format()
}

/// Remarks on a method that the tables do not show, in wrapped lines.
fn remarks(method: &MethodReport) -> Vec<String> {
    let name = method.method.name();
    let mut lines = Vec::new();
    match &method.outcome {
        Outcome::Measured => {
            lines.extend(method.limited.iter().map(|why| format!("{name}: {why}")));
            lines.extend(interpreters(method));
        }
        Outcome::Skipped { reason } => lines.push(format!("{name}: skipped: {reason}")),
        Outcome::Failed { reason } => lines.push(format!("{name}: FAILED: {reason}")),
    }
    lines.extend(method.merging.iter().map(|merge| {
        format!(
            "{name}: {} instances: {} s and {} s of processor time to save {}{}",
            merge.instances,
            three_digits(merge.seconds),
            three_digits(merge.cpu_seconds),
            bytes(merge.saved_bytes),
            if merge.settled {
                ""
            } else {
                ", not at rest when the limit was reached"
            },
        )
    }));
    lines.iter().map(|line| wrap(line, 4)).collect()
}

/// Share of the interpreters in the memory, for methods with interpreters.
pub fn interpreters(method: &MethodReport) -> Option<String> {
    let (each, last) = (method.interpreter_bytes?, method.group.last()?);
    let count = last.instances as u64;
    let beyond = last.group_bytes.cast_signed() - (each * count).cast_signed();
    Some(format!(
        "{}: interpreters take {} each; beyond them, {count} instances hold {}, {} copies of the weights",
        method.method.name(),
        bytes(each),
        signed_bytes(beyond),
        three_digits(beyond as f64 * count as f64 / last.logical_bytes.max(1) as f64),
    ))
}

/// Formats the bars and the paper's figures, after the last group.
pub fn closing(report: &Report) -> String {
    let mut lines = vec![String::new()];
    if !report.bars.is_empty() {
        let mut table = TextTable::new(1, ["bar", "ratio", "#limit", "#measured", ""]);
        for bar in &report.bars {
            let measured = bar
                .measured
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.4}"));
            let verdict = bar
                .met
                .map_or("not measured", |met| if met { "met" } else { "MISSED" });
            table.add(vec![
                bar.name.clone(),
                bar.formula.clone(),
                format!("<= {}", bar.limit),
                measured,
                verdict.to_owned(),
            ]);
        }
        lines.push(table.format());
    }
    let figures: Vec<_> = report
        .papers
        .iter()
        .filter(|figure| !figure.ours.is_empty())
        .collect();
    if !figures.is_empty() {
        let mut table = TextTable::new(1, ["Tetris paper", "quantity", "paper", "this run"]);
        for figure in figures {
            let cells = [&figure.place, &figure.what, &figure.paper, &figure.ours];
            table.add(cells.map(String::clone).to_vec());
        }
        lines.push(table.format());
    }
    lines.extend(
        report
            .notes
            .iter()
            .map(|note| wrap(&format!("- {note}"), 2)),
    );
    lines.push(String::new());
    lines.join("\n")
}

/// Formats the number of instances that fit, with a sign if more might.
pub fn fits(entry: &DensityOfMethod) -> String {
    match entry.outcome {
        Outcome::Measured if entry.at_least => format!(">= {}", entry.fits),
        Outcome::Measured => entry.fits.to_string(),
        _ => "-".to_owned(),
    }
}

/// Formats the end of the count.
pub fn ended(entry: &DensityOfMethod) -> String {
    match &entry.outcome {
        Outcome::Measured => entry
            .ended_by
            .as_ref()
            .map_or_else(String::new, CountEnd::to_string),
        Outcome::Skipped { reason } => format!("skipped: {reason}"),
        Outcome::Failed { reason } => format!("FAILED: {reason}"),
    }
}

fn peak(entry: &DensityOfMethod) -> String {
    entry.peak_bytes.map_or_else(String::new, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::legend::explains;
    use tetris_conventions::text_table::WIDTH;

    #[test]
    fn the_legend_explains_every_column() {
        let columns = MEMORY.iter().chain(&STARTS).chain(&LIMIT);
        let words = columns.map(|column| column.trim_start_matches(['#', '+']));
        for word in words.chain(["memory of the group", "inst.", "new", "seen", ">="]) {
            assert!(
                explains(word),
                "src/report/legend.rs does not explain `{word}`"
            );
        }
    }

    #[test]
    fn the_legend_fits_a_terminal_and_has_each_method() {
        let text = legend(&Method::DEFAULT);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        for method in Method::DEFAULT {
            assert!(text.contains(&format!("  {}: ", method.name())), "{text}");
        }
    }
}
