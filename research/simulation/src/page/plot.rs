//! Bar charts and line charts as inline SVG.

use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 194.0;
const TOP: f64 = 12.0;

/// Name of a group of bars, and name and value of each bar.
pub type BarGroup = (String, Vec<(String, f64)>);

/// Returns a bar chart with the caption `name`.
pub fn bars(name: &str, groups: &[BarGroup]) -> String {
    let values = groups.iter().flat_map(|(_, bars)| bars);
    let most = values.map(|(_, value)| *value).fold(0.0, f64::max);
    let (step, ticks) = ticks(most);
    let top = step * f64::from(ticks);
    let mut body = axis(step, ticks);
    let wide = (WIDTH - LEFT) / groups.len().max(1) as f64;
    for (at, (group, bars)) in groups.iter().enumerate() {
        let left = LEFT + wide * at as f64;
        let bar = wide * 0.84 / bars.len().max(1) as f64;
        for (index, (what, value)) in bars.iter().enumerate() {
            let height = (BOTTOM - TOP) * value / top;
            let _infallible = write!(
                body,
                "<rect class=\"p{index}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\">\
                 <title>{what}, {group}: {value:.2}</title></rect>",
                x = left + wide * 0.08 + bar * index as f64,
                y = BOTTOM - height,
                width = bar * 0.9,
            );
        }
        let _infallible = write!(
            body,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{group}</text>",
            left + wide / 2.0,
            BOTTOM + 18.0
        );
    }
    format!(
        "<figure><figcaption>{name}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{name} of each policy\">{body}</svg></figure>"
    )
}

/// Name of a line, its start and the interval between points, both in seconds, and its values.
pub type Line = (String, u64, u64, Vec<f64>);

/// Returns a line chart with the caption `name`.
pub fn over_time(name: &str, lines: &[Line]) -> String {
    let values = lines.iter().flat_map(|(.., values)| values);
    let (step, ticks) = ticks(values.copied().fold(0.0, f64::max));
    let top = step * f64::from(ticks);
    let ends = lines.iter();
    let ends = ends.map(|(_, first, every, values)| first + every * values.len() as u64);
    let end = ends.max().unwrap_or(0).max(1) as f64;
    let mut body = axis(step, ticks);
    for (index, (what, first, every, values)) in lines.iter().enumerate() {
        let points = values.iter().zip(0_u64..).map(|(value, at)| {
            let x = LEFT + (WIDTH - LEFT) * (first + every * at) as f64 / end;
            let y = BOTTOM - (BOTTOM - TOP) * value / top;
            format!("{x:.1},{y:.1} ")
        });
        let points: String = points.collect();
        let _infallible = write!(
            body,
            "<polyline class=\"l{index}\" points=\"{}\"><title>{what}</title></polyline>",
            points.trim_end()
        );
    }
    let _infallible = write!(
        body,
        "<text x=\"{LEFT}\" y=\"{y}\">0 s</text><text x=\"{WIDTH}\" y=\"{y}\" text-anchor=\"end\">{end} s</text>",
        y = BOTTOM + 18.0
    );
    format!(
        "<figure><figcaption>{name}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{name} of each policy\">{body}</svg></figure>"
    )
}

fn axis(step: f64, ticks: u32) -> String {
    let mut body = String::new();
    for tick in 0..=ticks {
        let y = BOTTOM - (BOTTOM - TOP) * f64::from(tick) / f64::from(ticks);
        // Multiples of a tenth are not exact in binary.
        let value = (step * f64::from(tick) * 1e6).round() / 1e6;
        let _infallible = write!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{x}\" y=\"{text_y:.1}\" text-anchor=\"end\">{value}</text>",
            x = LEFT - 6.0,
            text_y = y + 4.0,
        );
    }
    body
}

/// Returns a round distance of ticks, and the number of them that covers `most`.
fn ticks(most: f64) -> (f64, u32) {
    let rough = (most / 4.0).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(power);
    (step, (most / step).ceil().max(1.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_beyond_the_largest_value() {
        assert_eq!(ticks(100.0), (50.0, 2));
        assert_eq!(ticks(7.0), (2.0, 4));
        let (step, count) = ticks(0.0);
        assert!(step > 0.0 && count == 1);
    }
}
