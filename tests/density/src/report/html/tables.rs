//! The tables of the page.

use crate::data::{Bar, MethodReport, PaperFigure, WorkloadReport};
use crate::methods::Method;
use crate::report::plots::escape;
use crate::report::text;
use crate::units::{bytes, nanoseconds, signed_bytes, three_digits};
use tetris_test_support::stats::median;

/// Columns of the memory table.
const MEMORY: [&str; 11] = [
    "method",
    "#instances",
    "#logical",
    "#physical",
    "#each further",
    "#anonymous",
    "#file pages",
    "#tmpfs",
    "#page tables",
    "#2 MiB pages",
    "#MemAvailable",
];
/// Columns of the table of starts.
const STARTS: [&str; 11] = [
    "method",
    "files",
    "#starts",
    "#attach",
    "#p95",
    "#touch",
    "#p95",
    "#first result",
    "#p95",
    "#pass",
    "#/ private",
];
/// Columns of the table of instances under a limit.
const LIMIT: [&str; 4] = ["method", "#instances", "#peak", "ended by"];

/// Formats our bars beside the measured ratios.
pub fn bars(bars: &[Bar]) -> String {
    if bars.is_empty() {
        return String::new();
    }
    let rows = bars.iter().map(|bar| {
        let (class, verdict) = match bar.met {
            Some(true) => ("met", "met"),
            Some(false) => ("missed", "missed"),
            None => ("unjudged", "not measured"),
        };
        vec![
            cell(&bar.name),
            cell(&bar.formula),
            number(&format!("\u{2264} {}", bar.limit)),
            number(
                &bar.measured
                    .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.4}")),
            ),
            format!("<td><span class=\"verdict {class}\">{verdict}</span></td>"),
        ]
    });
    let table = table("", &["bar", "ratio", "#limit", "#measured", ""], rows);
    format!("<section><h2>Bars</h2>{table}</section>")
}

/// Formats the paper's figures beside ours.
pub fn papers(figures: &[PaperFigure]) -> String {
    let rows: Vec<_> = figures
        .iter()
        .filter(|figure| !figure.ours.is_empty())
        .map(|figure| {
            [&figure.place, &figure.what, &figure.paper, &figure.ours]
                .map(|text| cell(text))
                .to_vec()
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = table("", &["figure", "quantity", "paper", "this run"], rows);
    format!(
        "<section><h2>Beside the Tetris paper</h2><p class=\"about\">USENIX ATC 2022, section 5.2. The hardware, the \
         kernel and the processes differ: the paper ran TensorFlow Serving on Xeon servers with Linux 4.15, whose \
         processes hold much memory beside the tensors (Vgg19: 95 MB beside 549 MB). The workers here hold almost \
         nothing else, so these figures show what the tensors alone allow.</p>{table}</section>"
    )
}

/// Memory of the largest group, one row per method.
pub fn memory(report: &WorkloadReport) -> String {
    let rows = report.methods.iter().filter_map(|method| {
        let point = method.group.last()?;
        Some(vec![
            name(method),
            number(&point.instances.to_string()),
            number(&bytes(point.logical_bytes)),
            number(&bytes(point.group_bytes)),
            number(
                &method
                    .marginal_bytes
                    .map_or_else(String::new, |value| signed_bytes(value as i64)),
            ),
            number(&bytes(point.processes.pss_anon)),
            number(&bytes(point.processes.pss_file)),
            number(&bytes(point.store_bytes)),
            number(&bytes(point.processes.page_tables)),
            number(&format!("{:.0} %", point.large_pages_percent())),
            number(&signed_bytes(-point.available_drop_bytes)),
        ])
    });
    table("Memory of the largest group", &MEMORY, rows)
}

/// Start and pass times, one row per method and kind of start.
pub fn starts(report: &WorkloadReport) -> String {
    let mut rows = Vec::new();
    for method in &report.methods {
        let inference = report
            .inference
            .iter()
            .find(|samples| samples.method == method.method);
        let compared = inference
            .and_then(|samples| samples.summary.as_ref())
            .map(|summary| summary.median);
        let pass_times: Vec<f64> = method.pass_ns.iter().map(|&time| time as f64).collect();
        let pass = compared
            .or_else(|| median(&pass_times))
            .map_or_else(String::new, nanoseconds);
        let ratio = inference
            .and_then(|samples| samples.ratio_to_private)
            .map_or_else(String::new, three_digits);
        for (kind, summary) in [("new", &method.first), ("seen", &method.repeated)] {
            let Some(summary) = summary else { continue };
            let mut row = vec![
                name(method),
                cell(kind),
                number(&summary.attach_ns.count.to_string()),
            ];
            for times in [
                &summary.attach_ns,
                &summary.touch_ns,
                &summary.first_result_ns,
            ] {
                row.push(number(&nanoseconds(times.median)));
                row.push(number(&nanoseconds(times.p95)));
            }
            row.push(number(&pass));
            row.push(number(&ratio));
            rows.push(row);
        }
    }
    table("Start-up (medians) and passes", &STARTS, rows)
}

/// Numbers of instances that fit under the limit, one row per method; empty without a limit.
pub fn limit(report: &WorkloadReport) -> String {
    let Some(density) = &report.density else {
        return String::new();
    };
    let rows = density.methods.iter().map(|entry| {
        let peak = entry.peak_bytes.map_or_else(String::new, bytes);
        vec![
            method_name(entry.method),
            number(&text::fits(entry)),
            number(&peak),
            cell(&text::ended(entry)),
        ]
    });
    let caption = format!("Instances that fit in {}", bytes(density.budget_bytes));
    table(&caption, &LIMIT, rows)
}

/// The common part of each variant and the base; empty without a base.
pub fn sharing(report: &WorkloadReport) -> String {
    if report.sharing.is_empty() {
        return String::new();
    }
    let rows = report.sharing.iter().map(|part| {
        vec![
            cell(&part.variant),
            number(&bytes(part.tensor_bytes)),
            number(&bytes(part.shared_bytes)),
            number(&text::percent(part.shared_bytes, part.tensor_bytes)),
            number(&bytes(part.tensor_bytes - part.shared_bytes)),
        ]
    });
    let header = [
        "variant",
        "#tensors",
        "#of them in the base",
        "#part",
        "#its own",
    ];
    table("Common tensors of the family", &header, rows)
}

/// Results of merging; empty if it was not measured.
pub fn merging(report: &WorkloadReport) -> String {
    let merges = report.methods.iter().flat_map(|method| &method.merging);
    let rows: Vec<_> = merges
        .map(|merge| {
            vec![
                number(&merge.instances.to_string()),
                number(&format!("{} s", three_digits(merge.seconds))),
                number(&format!("{} s", three_digits(merge.cpu_seconds))),
                number(&bytes(merge.saved_bytes)),
                cell(if merge.settled {
                    "at rest"
                } else {
                    "still growing at the limit"
                }),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    table(
        "Samepage merging (ksm)",
        &["#instances", "#time", "#processor time", "#saved", "state"],
        rows,
    )
}

/// Formats a table; a header with the prefix `#` marks a column of numbers.
fn table(caption: &str, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let header: String = header
        .iter()
        .map(|name| match name.strip_prefix('#') {
            Some(name) => format!("<th class=\"number\">{}</th>", escape(name)),
            None => format!("<th>{}</th>", escape(name)),
        })
        .collect();
    let rows: Vec<String> = rows
        .into_iter()
        .map(|row| format!("<tr>{}</tr>", row.concat()))
        .collect();
    let caption = if caption.is_empty() {
        String::new()
    } else {
        format!("<caption>{}</caption>", escape(caption))
    };
    format!(
        "<div class=\"scroll\"><table>{caption}<thead><tr>{header}</tr></thead><tbody>{}</tbody></table></div>",
        rows.concat()
    )
}

fn name(report: &MethodReport) -> String {
    method_name(report.method)
}

fn method_name(method: Method) -> String {
    let name = method.name();
    format!(
        "<td class=\"name\" title=\"{}\"><i class=\"key {name}\"></i>{name}</td>",
        escape(method.description())
    )
}

fn cell(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

fn number(text: &str) -> String {
    format!("<td class=\"number\">{}</td>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::legend::explains;

    #[test]
    fn the_legend_explains_every_column() {
        for column in MEMORY.iter().chain(&STARTS).chain(&LIMIT) {
            let word = column.trim_start_matches('#');
            let is_explained = word == "method" || explains(word);
            assert!(
                is_explained,
                "src/report/legend.rs does not explain `{word}`"
            );
        }
    }
}
