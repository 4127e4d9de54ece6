//! Tables for a terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table, TableComponent};

use super::data::{DensityOfMethod, MethodReport, Outcome, Report, WorkloadReport};
use crate::units::{bytes, nanoseconds, signed_bytes, three_digits};

/// Formats the tables of one group.
pub fn workload(report: &WorkloadReport) -> String {
    let mut lines = vec![
        String::new(),
        format!("{}: {}", report.name, report.description),
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
    lines.push(memory(report));
    lines.push(starts(report));
    lines.extend(report.methods.iter().flat_map(remarks));
    if let Some(density) = &report.density {
        lines.push(format!(
            "Instances that fit under a limit of {}:",
            bytes(density.budget_bytes)
        ));
        let mut table = table(&["method", "instances", "ended by", "peak"], &[1, 3]);
        for entry in &density.methods {
            table.add_row([
                entry.method.name().to_owned(),
                fits(entry),
                ended(entry),
                peak(entry),
            ]);
        }
        lines.push(table.to_string());
    }
    lines.push(String::new());
    lines.join("\n")
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
    header.extend(sizes.iter().map(|size| format!("{size} inst.")));
    header
        .extend(["each further", "MemAvailable", "2 MiB pages", "page tables"].map(str::to_owned));
    let numeric: Vec<usize> = (1..header.len()).collect();
    let mut table = table(
        &header.iter().map(String::as_str).collect::<Vec<_>>(),
        &numeric,
    );
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
        table.add_row(row);
    }
    table.to_string()
}

/// Start and pass times, one row per method, with repeated starts where there are any.
fn starts(report: &WorkloadReport) -> String {
    let header = [
        "start",
        "files",
        "attach",
        "p95",
        "touch",
        "p95",
        "first result",
        "p95",
        "pass",
        "/ private",
    ];
    let mut table = table(&header, &(2..header.len()).collect::<Vec<_>>());
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
            let own: Vec<f64> = method.pass_ns.iter().map(|&time| time as f64).collect();
            row.push(
                pass.or_else(|| crate::stats::median(&own))
                    .map_or_else(String::new, nanoseconds),
            );
            let ratio = inference.and_then(|samples| samples.ratio_to_private);
            row.push(ratio.map_or_else(String::new, three_digits));
            table.add_row(row);
        }
    }
    table.to_string()
}

/// Remarks on a method that the tables do not show.
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
    lines
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
        let mut table = table(&["bar", "ratio", "limit", "measured", ""], &[2, 3]);
        for bar in &report.bars {
            let measured = bar
                .measured
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.4}"));
            let verdict = bar
                .met
                .map_or("not measured", |met| if met { "met" } else { "MISSED" });
            let limit = format!("<= {}", bar.limit);
            table.add_row([bar.name.as_str(), &bar.formula, &limit, &measured, verdict]);
        }
        lines.push(table.to_string());
    }
    let figures: Vec<_> = report
        .papers
        .iter()
        .filter(|figure| !figure.ours.is_empty())
        .collect();
    if !figures.is_empty() {
        let mut table = table(&["Tetris paper", "quantity", "paper", "this run"], &[]);
        for figure in figures {
            table.add_row([&figure.place, &figure.what, &figure.paper, &figure.ours]);
        }
        lines.push(table.to_string());
    }
    lines.extend(report.notes.iter().map(|note| format!("- {note}")));
    lines.push(String::new());
    lines.join("\n")
}

fn table(header: &[&str], numeric: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_HORIZONTAL_ONLY)
        .set_header(header.iter().copied());
    // One line under the header is enough.
    for line in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(line);
    }
    for &column in numeric {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
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
        Outcome::Measured => entry.ended_by.clone(),
        Outcome::Skipped { reason } => format!("skipped: {reason}"),
        Outcome::Failed { reason } => format!("FAILED: {reason}"),
    }
}

fn peak(entry: &DensityOfMethod) -> String {
    entry.peak_bytes.map_or_else(String::new, bytes)
}
