//! Numbers of instances that fit under the limit, one bar per method.
//!
//! A bar whose count ended before the memory did goes on as an outline.

use super::svg::{Anchor, Svg, WIDTH};
use crate::data::{CountEnd, DensityOfMethod, Outcome, WorkloadReport};
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
        if entry.at_least {
            // The true end is unknown: the rest of the row stays open.
            svg.open_bar(
                entry.method.name(),
                (LEFT + width, y),
                (RIGHT - LEFT - width, THICKNESS),
            );
        }
        let end = if entry.at_least { RIGHT } else { LEFT + width };
        let end = (end + 8.0, middle);
        svg.text("value", end, Anchor::Start, &text::fits(entry));
        let why = entry.ended_by.as_ref().map_or("", CountEnd::short);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DensityReport;
    use crate::methods::Method;

    #[test]
    fn a_bar_says_why_its_count_ended_and_stays_open_where_the_memory_was_not_full() {
        let entry = |method, fits, ended_by: CountEnd| DensityOfMethod {
            method,
            outcome: Outcome::Measured,
            fits,
            at_least: ended_by.leaves_room(),
            ended_by: Some(ended_by),
            peak_bytes: None,
            alone_pass_ns: 0,
        };
        let report = WorkloadReport {
            density: Some(DensityReport {
                budget_bytes: 1 << 30,
                cap: 32,
                methods: vec![
                    entry(Method::Private, 4, CountEnd::Killed { kills: 1 }),
                    entry(Method::TetrisOwnFile, 4, CountEnd::Copies),
                    entry(Method::Tetris, 32, CountEnd::Cap),
                ],
            }),
            ..WorkloadReport::default()
        };
        let plot = density(&report).unwrap();
        for text in [
            "killed",
            "no more copies",
            "cap reached",
            "&gt;= 4",
            "&gt;= 32",
        ] {
            assert!(plot.contains(text), "{text}: {plot}");
        }
        assert!(plot.contains("open tetris-own-file"), "{plot}");
        assert!(!plot.contains("open private"), "{plot}");
    }
}
