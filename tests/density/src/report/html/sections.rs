//! One section per group: description, plots, tables.

use super::tables;
use crate::data::{Outcome, WorkloadReport};
use crate::report::plots::{self, escape};
use crate::report::text::interpreters;
use crate::units::bytes;

/// Formats the section of a group.
pub fn workload(report: &WorkloadReport) -> String {
    let figures: String = [
        (plots::memory(report), "Memory over instances"),
        (plots::start(report), "Time to first result"),
        (plots::density(report), "Density under a limit"),
    ]
    .into_iter()
    .filter_map(|(plot, caption)| {
        Some(format!(
            "<figure><figcaption>{caption}</figcaption>{}</figure>",
            plot?
        ))
    })
    .collect();
    format!(
        "<section><h2>{name}</h2><p class=\"about\">{about}. {models}</p><div class=\"plots\">{figures}<div class=\"beside\">\
         {sharing}{merging}{left_out}</div></div>{memory}{starts}{limit}</section>",
        name = escape(&report.name),
        about = escape(&sentence(&report.description)),
        models = escape(&models(report)),
        memory = tables::memory(report),
        starts = tables::starts(report),
        limit = tables::limit(report),
        sharing = tables::sharing(report),
        merging = tables::merging(report),
        left_out = left_out(report),
    )
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

fn models(report: &WorkloadReport) -> String {
    const SHOWN: usize = 6;
    let mut names: Vec<String> = report
        .models
        .iter()
        .take(SHOWN)
        .map(|model| {
            format!(
                "{} ({}, {} tensors)",
                model.name,
                bytes(model.tensor_bytes),
                model.tensors
            )
        })
        .collect();
    if report.models.len() > SHOWN {
        names.push(format!("{} more", report.models.len() - SHOWN));
    }
    let distinct = report.distinct_bytes.map_or_else(String::new, |distinct| {
        format!("; {} of different tensors", bytes(distinct))
    });
    format!("Files: {}{distinct}.", names.join(", "))
}

/// Methods that were skipped, failed or limited, with the reason; and the memory of interpreters.
fn left_out(report: &WorkloadReport) -> String {
    let mut lines = Vec::new();
    for method in &report.methods {
        let name = method.method.name();
        match &method.outcome {
            Outcome::Measured => {
                lines.extend(method.limited.iter().map(|why| format!("{name}: {why}")));
                lines.extend(interpreters(method));
            }
            Outcome::Skipped { reason } => lines.push(format!("{name}: skipped: {reason}")),
            Outcome::Failed { reason } => lines.push(format!("{name}: failed: {reason}")),
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let items: Vec<String> = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    format!("<ul class=\"notes\">{}</ul>", items.concat())
}
