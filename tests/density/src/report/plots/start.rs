//! Cumulative distribution of the time to first result.

use super::scale::{Scale, decades};
use super::svg::{Anchor, Svg, WIDTH};
use crate::data::WorkloadReport;
use crate::methods::Method;
use crate::units;

const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 290.0;
const LEGEND: f64 = BOTTOM + 62.0;
const LEGEND_COLUMNS: usize = 3;
const LEGEND_ROW: f64 = 20.0;

/// Draws the plot; `None` if no method was measured.
pub fn start(report: &WorkloadReport) -> Option<String> {
    let curves: Vec<(Method, Vec<f64>)> = report
        .methods
        .iter()
        .filter(|method| !method.starts.is_empty())
        .map(|method| {
            let mut times: Vec<f64> = method
                .starts
                .iter()
                .map(|start| start.first_result_ns as f64)
                .collect();
            times.sort_by(f64::total_cmp);
            (method.method, times)
        })
        .collect();
    let all = || curves.iter().flat_map(|(_, times)| times).copied();
    let ticks = decades(
        all().reduce(f64::min)?.max(1.0),
        all().reduce(f64::max)?.max(1.0),
    );
    let (first, last) = (*ticks.first()?, *ticks.last()?);
    let x = Scale::logarithmic((first, last), (LEFT, RIGHT));
    let y = Scale::linear((0.0, 100.0), (BOTTOM, TOP));

    let rows = curves.len().div_ceil(LEGEND_COLUMNS);
    let height = LEGEND + rows as f64 * LEGEND_ROW;
    let mut svg = Svg::new(
        height,
        &format!("time to first result, cumulative, {}", report.name),
    );
    frame(&mut svg, &ticks, x, y);
    for (method, times) in &curves {
        svg.path(method.name(), &steps(times, x, y));
        if let (Some(time), middle) = (times.get(times.len() / 2), y.place(50.0)) {
            let tip = format!("{}: median {}", method.name(), units::nanoseconds(*time));
            svg.dot(method.name(), (x.place(*time), middle), &tip);
        }
    }
    legend(&mut svg, &curves);
    Some(svg.finish())
}

/// Grid, ticks and axis titles.
fn frame(svg: &mut Svg, ticks: &[f64], x: Scale, y: Scale) {
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let at = y.place(percent);
        svg.line("grid", (LEFT, at), (RIGHT, at));
        svg.text(
            "tick",
            (LEFT - 8.0, at + 4.0),
            Anchor::End,
            &format!("{percent:.0} %"),
        );
    }
    for &tick in ticks {
        let at = x.place(tick);
        svg.line("grid", (at, TOP), (at, BOTTOM + 4.0));
        svg.text("tick", (at, BOTTOM + 18.0), Anchor::Middle, &short(tick));
    }
    svg.line("frame", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text(
        "axis",
        (f64::midpoint(LEFT, RIGHT), BOTTOM + 38.0),
        Anchor::Middle,
        "time to first result, logarithmic",
    );
    svg.side_text(f64::midpoint(TOP, BOTTOM), "instances that have it");
}

/// Names and numbers of starts below the plot.
fn legend(svg: &mut Svg, curves: &[(Method, Vec<f64>)]) {
    for (number, (method, times)) in curves.iter().enumerate() {
        let column = (number % LEGEND_COLUMNS) as f64 * (RIGHT - LEFT) / LEGEND_COLUMNS as f64;
        let row = LEGEND + (number / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        svg.path(
            method.name(),
            &[(LEFT + column, row), (LEFT + column + 22.0, row)],
        );
        let text = format!("{} ({})", method.name(), times.len());
        svg.text(
            "legend",
            (LEFT + column + 28.0, row + 4.0),
            Anchor::Start,
            &text,
        );
    }
}

/// Steps of a cumulative distribution, from the axis to its top.
fn steps(times: &[f64], x: Scale, y: Scale) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut reached = 0.0;
    for (number, time) in times.iter().enumerate() {
        points.push((x.place(*time), y.place(reached)));
        reached = 100.0 * (number + 1) as f64 / times.len() as f64;
        points.push((x.place(*time), y.place(reached)));
    }
    points
}

/// Formats a power of ten of nanoseconds in one short word.
fn short(nanoseconds: f64) -> String {
    match nanoseconds {
        v if v < 1e3 => format!("{v:.0} ns"),
        v if v < 1e6 => format!("{:.0} us", v / 1e3),
        v if v < 1e9 => format!("{:.0} ms", v / 1e6),
        v => format!("{:.0} s", v / 1e9),
    }
}
