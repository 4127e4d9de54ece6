//! Report of a sweep as a page.

use tetris_scaler_simulator::sweep::{Point, Sweep, SweepRun, Wins, competitors};
use tetris_scaler_simulator::{Column, Policy};
use tetris_simulation::TraceSource;
use tetris_simulation::page::{self, BarGroup, bars, key, table};

use super::sweep_text::{cell, heading, percents, title};
use super::text::setting;

/// Returns the whole page. It contains no outside text, so it needs no escaping.
pub fn page(sweep: &Sweep) -> String {
    let lead = format!(
        "Each invented input at its low and its high value, and random combinations, {} points in all: {}. Bars over \
         100 % in the plots of inputs are policies that take more memory than the best timely one.",
        sweep.points.len(),
        page::escape(&setting(&sweep.grid))
    );
    let policies = sweep.grid.policies.iter().enumerate();
    let legend =
        policies.map(|(at, policy)| vec![key(at, policy.name()), policy.about().to_owned()]);
    let mut body = format!("<section>{}</section>", table(&["policy", ""], 2, legend));
    let shares: String = views(sweep).iter().map(|view| wins_plot(view)).collect();
    body.push_str(&page::plots("How often each policy is the best", &shares));
    for kind in sweep.grid.sources() {
        let plots: String = inputs(sweep)
            .iter()
            .map(|name| plot(sweep, kind, name))
            .collect();
        body.push_str(&page::plots(
            &format!("Mean memory by input, {kind} requests"),
            &plots,
        ));
    }
    body.push_str(&section("Wins", &wins_table(sweep)));
    body.push_str(&section("One input at a time", &points_table(sweep)));
    body.push_str(&section("Invented inputs", &inputs_table(sweep)));
    page::page(
        "Sensitivity of scaling policies",
        "Sensitivity",
        &lead,
        &body,
    )
}

fn section(heading: &str, content: &str) -> String {
    format!("<section><h2>{heading}</h2>{content}</section>")
}

/// Returns the wins by view: column, and if only timely policies compete.
fn views(sweep: &Sweep) -> Vec<&[Wins]> {
    let same = |a: &Wins, b: &Wins| (a.column, a.timely) == (b.column, b.timely);
    sweep.wins.chunk_by(same).collect()
}

fn wins_plot(view: &[Wins]) -> String {
    let share = |one: &Wins| 100.0 * one.wins as f64 / one.of.max(1) as f64;
    let bar = |one: &Wins| (one.policy.to_string(), share(one));
    let group: BarGroup = (String::new(), view.iter().map(bar).collect());
    let name = view.first().map_or(String::new(), heading);
    bars(&format!("{name}: best in percent of runs"), &[group])
}

/// Names of all inputs.
fn inputs(sweep: &Sweep) -> Vec<&'static str> {
    sweep.inputs.iter().map(|sweep| sweep.input.name).collect()
}

/// Plots mean memory of all policies at an input's low and high value, in percent of the best.
fn plot(sweep: &Sweep, kind: TraceSource, input: &str) -> String {
    let single = |point: &Point| {
        let change = point.changes.first().filter(|_| !point.random);
        change
            .filter(|change| change.input == input)
            .map(|change| change.value)
    };
    let points = sweep.points.iter().enumerate();
    let points = points.filter_map(|(at, point)| Some((at, single(point)?)));
    let groups: Vec<BarGroup> = points
        .filter_map(|(at, value)| {
            let run = sweep
                .runs
                .iter()
                .find(|run| run.point == at && run.kind == kind)?;
            let bars = sweep.grid.policies.iter().map(|&policy| bar(run, policy));
            Some((value.to_string(), bars.collect()))
        })
        .collect();
    bars(&format!("{input}, % of the best"), &groups)
}

fn bar(run: &SweepRun, policy: Policy) -> (String, f64) {
    let timely = competitors(run, Column::MeanMemory, true);
    let best = timely.iter().map(|&(_, value)| value).min().unwrap_or(0);
    let of_policy = run.results.iter().find(|run| run.policy == policy);
    let value = of_policy.map_or(0, |entry| entry.value(Column::MeanMemory));
    (
        policy.to_string(),
        100.0 * value as f64 / best.max(1) as f64,
    )
}

fn wins_table(sweep: &Sweep) -> String {
    let rows = sweep.wins.iter().map(|win| {
        let mut cells = vec![heading(win), win.policy.to_string()];
        cells.extend([win.wins.to_string(), win.of.to_string()]);
        cells.extend(percents(win));
        cells
    });
    let heads = ["", "policy", "best", "of", "lead %", "excess %", "worst %"];
    table(&heads, 2, rows)
}

fn points_table(sweep: &Sweep) -> String {
    let rows = sweep.points.iter().enumerate().filter_map(|(at, point)| {
        let (name, value) = title(point)?;
        let runs = sweep.runs.iter().filter(|run| run.point == at);
        let cells: Vec<String> = runs.map(cell).collect();
        Some(vec![name, cells.join("; "), value])
    });
    let heads = [
        "input",
        "best, lead in percent (sharing-aware against DTS)",
        "value",
    ];
    table(&heads, 2, rows)
}

fn inputs_table(sweep: &Sweep) -> String {
    let rows = sweep.inputs.iter().map(|sweep| {
        let texts = vec![sweep.input.name.to_owned(), sweep.input.about.to_owned()];
        let numbers = [sweep.input.low, sweep.default, sweep.input.high];
        let numbers = numbers.map(|number| number.to_string());
        texts.into_iter().chain(numbers).collect::<Vec<_>>()
    });
    table(&["input", "", "low", "default", "high"], 2, rows)
}
