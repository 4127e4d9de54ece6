//! Report of a comparison of rules of dispatch as a page.

use tetris_scaler_simulator::dispatch::{DispatchComparison, Rule};
use tetris_simulation::page::{self, BarGroup, bars, key, table};

use super::dispatch_text::{HEADS, figures, setting};
use super::text::percent;

/// Returns the whole page. It contains no outside text, so it needs no escaping.
pub fn page(comparison: &DispatchComparison) -> String {
    let rules = Rule::ALL.into_iter().enumerate();
    let legend = rules.map(|(at, rule)| vec![key(at, rule.name()), rule.about().to_owned()]);
    let legend = table(&["rule", ""], 2, legend);
    let rows = comparison.runs.iter().map(|run| {
        let [functions, instances] = [run.functions, run.instances].map(|count| count.to_string());
        let mut cells = vec![functions, instances, run.rule.to_string()];
        cells.extend(figures(comparison, run));
        cells
    });
    let rows = table(&HEADS, 3, rows);
    let cases = comparison.grid.functions.iter();
    let groups: Vec<BarGroup> = cases
        .map(|&functions| {
            let runs = comparison.runs.iter();
            let late = runs.filter(|run| run.functions == functions).map(|run| {
                (
                    run.rule.to_string(),
                    percent(run.outcome.violations, run.outcome.requests),
                )
            });
            (format!("functions: {functions}"), late.collect())
        })
        .collect();
    let plot = bars("Requests beyond their objective, percent", &groups);
    let body = format!(
        "<section>{legend}</section>{}<section>{rows}</section>",
        page::plots("Late requests", &plot)
    );
    page::page(
        "Rules of dispatch",
        "Rules of dispatch",
        &format!("{}.", setting(&comparison.grid)),
        &body,
    )
}
