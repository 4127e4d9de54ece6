//! Memory of the group over the number of instances.

use super::scale::{Scale, round_ticks};
use super::svg::{Anchor, Svg, WIDTH, spread};
use crate::data::{MethodReport, WorkloadReport};
use crate::units::{self, GIB, MIB};

const HEIGHT: f64 = 380.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 178.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 46.0;
const LABEL_DISTANCE: f64 = 16.0;

/// Draws the plot; `None` if no method was measured.
pub fn memory(report: &WorkloadReport) -> Option<String> {
    let methods: Vec<&MethodReport> = report
        .methods
        .iter()
        .filter(|method| !method.group.is_empty())
        .collect();
    let points = || methods.iter().flat_map(|method| &method.group);
    let most_bytes = points().map(|point| point.group_bytes).max()?;
    let most_instances = points().map(|point| point.instances).max()?;
    let (unit, unit_name) = if most_bytes >= GIB {
        (GIB, "GiB")
    } else {
        (MIB, "MiB")
    };
    let ticks = round_ticks(most_bytes as f64 / unit as f64, 5);
    let x = Scale::linear((0.0, most_instances as f64), (LEFT, RIGHT));
    let y = Scale::linear((0.0, *ticks.last()? * unit as f64), (BOTTOM, TOP));

    let mut svg = Svg::new(
        HEIGHT,
        &format!("memory of the group over instances, {}", report.name),
    );
    frame(&mut svg, &methods, &ticks, (unit, unit_name), (x, y));
    for method in &methods {
        let places: Vec<_> = method
            .group
            .iter()
            .map(|point| {
                (
                    x.place(point.instances as f64),
                    y.place(point.group_bytes as f64),
                )
            })
            .collect();
        svg.path(method.method.name(), &places);
        for (place, point) in places.iter().zip(&method.group) {
            let size = units::bytes(point.group_bytes);
            svg.dot(
                method.method.name(),
                *place,
                &format!("{}, {}: {size}", method.method.name(), point.instances),
            );
        }
    }
    label(&mut svg, &methods, x, y);
    Some(svg.finish())
}

/// Grid, ticks and axis titles; the ticks are in the given unit.
fn frame(
    svg: &mut Svg,
    methods: &[&MethodReport],
    ticks: &[f64],
    (unit, unit_name): (u64, &str),
    (x, y): (Scale, Scale),
) {
    for tick in ticks {
        let at = y.place(tick * unit as f64);
        svg.line("grid", (LEFT, at), (RIGHT, at));
        svg.text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &trimmed(*tick));
    }
    let points = methods.iter().flat_map(|method| &method.group);
    let mut sizes: Vec<usize> = points.map(|point| point.instances).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut last_label = f64::NEG_INFINITY;
    for size in sizes {
        let at = x.place(size as f64);
        svg.line("grid", (at, BOTTOM), (at, BOTTOM + 4.0));
        // Labels of close sizes would overlap.
        if at - last_label >= 18.0 {
            svg.text(
                "tick",
                (at, BOTTOM + 18.0),
                Anchor::Middle,
                &size.to_string(),
            );
            last_label = at;
        }
    }
    svg.line("frame", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text(
        "axis",
        (f64::midpoint(LEFT, RIGHT), HEIGHT - 8.0),
        Anchor::Middle,
        "instances",
    );
    svg.side_text(
        f64::midpoint(TOP, BOTTOM),
        &format!("memory of the group, {unit_name}"),
    );
}

/// Names and final values at the right, each connected to the end of its line.
fn label(svg: &mut Svg, methods: &[&MethodReport], x: Scale, y: Scale) {
    let ends: Vec<_> = methods
        .iter()
        .filter_map(|method| Some((method.method, *method.group.last()?)))
        .collect();
    let places: Vec<f64> = ends
        .iter()
        .map(|(_, point)| y.place(point.group_bytes as f64))
        .collect();
    let spread = spread(&places, LABEL_DISTANCE, TOP, BOTTOM);
    for (((method, point), from), to) in ends.iter().zip(&places).zip(&spread) {
        let end = x.place(point.instances as f64) + 5.0;
        svg.line(
            &format!("leader {}", method.name()),
            (end, *from),
            (RIGHT + 14.0, *to),
        );
        let text = format!("{} {}", method.name(), units::bytes(point.group_bytes));
        svg.text(
            &format!("label {}", method.name()),
            (RIGHT + 18.0, to + 4.0),
            Anchor::Start,
            &text,
        );
    }
}

/// Formats a tick value without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
