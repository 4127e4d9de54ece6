//! Numbers of instances that fit under the limit, one bar per method.

use super::svg::{Anchor, Svg, WIDTH};
use crate::report::data::{DensityOfMethod, Outcome, WorkloadReport};
use crate::report::text;
use crate::units;

const LEFT: f64 = 132.0;
const RIGHT: f64 = WIDTH - 156.0;
const TOP: f64 = 10.0;
const ROW: f64 = 38.0;
const THICKNESS: f64 = 24.0;
/// Width of a digit of the bold figure behind a bar.
const DIGIT: f64 = 9.0;

/// Draws the plot; `None` if no method was counted.
pub fn density(report: &WorkloadReport) -> Option<String> {
    let density = report.density.as_ref()?;
    let counted: Vec<&DensityOfMethod> = density
        .methods
        .iter()
        .filter(|entry| entry.outcome == Outcome::Measured)
        .collect();
    let most = counted.iter().map(|entry| entry.fits).max()?.max(1);
    let bottom = TOP + counted.len() as f64 * ROW;
    let mut svg = Svg::new(
        bottom + 34.0,
        &format!("instances that fit under a limit, {}", report.name),
    );
    for (number, entry) in counted.iter().enumerate() {
        let y = TOP + number as f64 * ROW + (ROW - THICKNESS) / 2.0;
        let middle = y + THICKNESS / 2.0 + 4.0;
        let width = (RIGHT - LEFT) * entry.fits as f64 / most as f64;
        svg.text(
            "legend",
            (LEFT - 10.0, middle),
            Anchor::End,
            entry.method.name(),
        );
        svg.bar(entry.method.name(), (LEFT, y), (width, THICKNESS));
        let end = (LEFT + width + 8.0, middle);
        svg.text("value", end, Anchor::Start, &text::fits(entry));
        let why = if entry.at_least {
            "cap reached"
        } else {
            reason(&entry.ended_by)
        };
        let offset = 12.0 + DIGIT * text::fits(entry).len() as f64;
        svg.text("tick", (end.0 + offset, middle), Anchor::Start, why);
    }
    svg.line("frame", (LEFT, TOP), (LEFT, bottom));
    let limit = format!(
        "instances that fit in {}",
        units::bytes(density.budget_bytes)
    );
    svg.text(
        "axis",
        (f64::midpoint(LEFT, RIGHT), bottom + 24.0),
        Anchor::Middle,
        &limit,
    );
    Some(svg.finish())
}

/// The first word of the event that ended the count.
fn reason(ended_by: &str) -> &str {
    ended_by.split([':', ' ']).next().unwrap_or(ended_by)
}
