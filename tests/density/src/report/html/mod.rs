//! The report as one self-contained page: no scripts, no fonts, plots as inline SVG.

mod cards;
mod legend;
mod sections;
mod tables;

use super::plots::escape;
use crate::data::Report;
use crate::units::three_digits;

const STYLE: &str = include_str!("style.css");

/// Formats the page.
pub fn page(report: &Report) -> String {
    let workloads: String = report.workloads.iter().map(sections::workload).collect();
    let notes: Vec<String> = report
        .notes
        .iter()
        .map(|note| format!("<li>{}</li>", escape(note)))
        .collect();
    let quick = if report.quick {
        "<p class=\"warning\">Smoke run with tiny models: the figures say nothing.</p>"
    } else {
        ""
    };
    let store = if report.store_place.is_empty() {
        String::new()
    } else {
        format!(
            "<dt>tensor store</dt><dd>{}</dd>",
            escape(&report.store_place)
        )
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>Tetris density report</title><style>{STYLE}</style></head><body><main>\
         <header><h1>Density of models</h1><p class=\"lead\">Memory and start-up of a group of inference \
         processes, by the way they load the same weights.</p><p class=\"machine\">{machine}</p>{quick}</header>\
         {cards}{legend}{bars}{workloads}{papers}\
         <section><h2>Notes on the figures</h2><ul class=\"notes\">{notes}</ul></section>\
         <section><h2>This run</h2><dl><dt>command</dt><dd><code>{command}</code></dd>\
         <dt>seed</dt><dd>{seed}</dd><dt>duration</dt><dd>{duration} s</dd>\
         <dt>load average at the begin</dt><dd>{load:.2}</dd>{store}</dl></section></main></body></html>\n",
        machine = escape(&report.machine.line()),
        notes = notes.concat(),
        cards = cards::cards(report),
        legend = legend::legend(report),
        bars = tables::bars(&report.bars),
        papers = tables::papers(&report.papers),
        command = escape(&report.command),
        seed = report.seed,
        duration = three_digits(report.duration_s),
        load = report.machine.load_average,
    )
}
