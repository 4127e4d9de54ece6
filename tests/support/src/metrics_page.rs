//! The table of a program's metrics in docs/metrics.md, which is written from what it serves.

use std::collections::{BTreeMap, BTreeSet};

use crate::generated_page;

/// Compares the table of `program` with `exposition`, which has all its families, each with at least
/// one sample: labels are read from samples.
pub fn check(program: &str, exposition: &str) {
    generated_page::check("metrics.md", program, &table(exposition));
}

/// Name, type, labels and meaning of each family of ours. Those of the process have the names that
/// Prometheus gives them everywhere.
fn table(exposition: &str) -> String {
    let help = comments(exposition, "# HELP ");
    let mut rows =
        String::from("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
    for (name, kind) in comments(exposition, "# TYPE ") {
        let sample = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            "histogram" => format!("{name}_bucket"),
            _ => name.to_owned(),
        };
        let labels = labels(exposition, &sample);
        let shown = if kind == "histogram" { name } else { &sample };
        let meaning = help[name].trim_end_matches('.').replace('|', "\\|");
        rows.extend([
            "| `", shown, "` | ", kind, " | ", &labels, " | ", &meaning, " |\n",
        ]);
    }
    rows
}

/// Texts of the lines `mark`, by the family's name.
fn comments<'a>(exposition: &'a str, mark: &str) -> BTreeMap<&'a str, &'a str> {
    let lines = exposition.lines();
    let pairs = lines.filter_map(|line| line.strip_prefix(mark)?.split_once(' '));
    pairs
        .filter(|(name, _)| name.starts_with("tetris_"))
        .collect()
}

/// Names of the labels of all samples with this name. `le` is a histogram's own.
fn labels(exposition: &str, sample: &str) -> String {
    let lines = exposition.lines();
    let of_sample: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix(sample))
        .filter(|rest| rest.starts_with(['{', ' ']))
        .collect();
    assert!(!of_sample.is_empty(), "no sample of {sample}");
    let mut names = BTreeSet::new();
    for rest in of_sample {
        // A label ends where its value's quote opens: values may have commas and braces.
        let parts: Vec<&str> = rest.split('"').collect();
        names.extend(parts.iter().step_by(2).filter_map(|part| {
            let name = part.strip_suffix('=')?;
            Some(name.trim_start_matches(['{', ',']))
        }));
    }
    names.remove("le");
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
