//! The report as one self-contained page: no scripts, no fonts, plots as inline SVG.

use std::fmt::Write;

use tetris_reclaimer_core::replay::compare::{Comparison, Score, TIE_PERCENT, score};
use tetris_reclaimer_core::replay::trace::Kind;

const STYLE: &str = include_str!("style.css");

/// A value plotted for every policy.
struct Measure {
    name: &'static str,
    of: fn(&Score) -> f64,
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "reload time, thousands of seconds",
        of: |score| score.reload_secs / 1000.0,
    },
    Measure {
        name: "byte hits, percent",
        of: |score| score.hit_ratio * 100.0,
    },
    Measure {
        name: "memory in use, GiB hours",
        of: |score| score.gib_hours,
    },
];

/// Formats the page. It contains no external text, so nothing is escaped.
pub fn page(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let winner = comparison.winner.unwrap_or("none");
    let mut sections = String::new();
    for kind in &grid.kinds {
        let plots: String = MEASURES
            .iter()
            .map(|measure| plot(comparison, *kind, measure))
            .collect();
        let _infallible = write!(
            sections,
            "<section><h2>{kind} requests</h2><div class=\"plots\">{plots}</div></section>"
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>Tetris reclaim policies</title><style>{STYLE}</style></head><body><main>\
         <header><h1>Reclaim policies compared</h1><p class=\"lead\">Reclaim policies on generated traces of {hours} hours, \
         seeds {seeds:?}, with stores of different sizes (percent of the distinct bytes of all models). The right \
         default is <span class=\"winner\">{winner}</span>: of the policies within {TIE_PERCENT} % of the lowest \
         slowdown, the one with the least memory in use.</p></header>\
         <section>{table}</section>{sections}</main></body></html>\n",
        hours = grid.hours,
        seeds = grid.seeds,
        table = table(comparison),
    )
}

fn table(comparison: &Comparison) -> String {
    let mut rows = String::new();
    let both = comparison.scores.iter().zip(&comparison.candidates);
    for (index, (score, candidate)) in both.enumerate() {
        let class = if comparison.winner == Some(score.policy) {
            "winner"
        } else {
            ""
        };
        let _infallible = write!(
            rows,
            "<tr class=\"{class}\"><td><span class=\"key k{index}\"></span>{}</td><td>{}</td>\
             <td class=\"number\">{:.3}</td><td class=\"number\">{:.0}</td>\
             <td class=\"number\">{:.1} %</td><td class=\"number\">{:.0}</td></tr>",
            score.policy,
            candidate.about,
            score.slowdown,
            score.reload_secs,
            score.hit_ratio * 100.0,
            score.gib_hours,
        );
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>policy</th><th></th><th class=\"number\">slowdown</th>\
         <th class=\"number\">reload s</th><th class=\"number\">byte hits</th>\
         <th class=\"number\">GiB hours</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 194.0;
const TOP: f64 = 12.0;

/// Draws grouped bars, one group for each size of the store.
fn plot(comparison: &Comparison, kind: Kind, measure: &Measure) -> String {
    let mut groups = Vec::new();
    for size in &comparison.grid.sizes_percent {
        let cell: Vec<_> = comparison
            .runs
            .iter()
            .filter(|run| run.kind == kind && run.size_percent == *size)
            .cloned()
            .collect();
        let of = |name| (measure.of)(&score(name, &cell));
        let names = comparison.candidates.iter().map(|one| one.name);
        let bars: Vec<(&str, f64)> = names.map(|name| (name, of(name))).collect();
        groups.push((*size, bars));
    }
    let values = groups.iter().flat_map(|(_, bars)| bars);
    let most = values.map(|(_, value)| *value).fold(0.0, f64::max);
    let (step, ticks) = ticks(most);
    let top = step * f64::from(ticks);
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / top;
    let mut body = String::new();
    for tick in 0..=ticks {
        let value = step * f64::from(tick);
        let _infallible = write!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{x}\" y=\"{text_y:.1}\" text-anchor=\"end\">{value}</text>",
            y = y(value),
            x = LEFT - 6.0,
            text_y = y(value) + 4.0,
        );
    }
    let wide = (WIDTH - LEFT) / groups.len().max(1) as f64;
    for (at, (size, bars)) in groups.iter().enumerate() {
        let left = LEFT + wide * at as f64;
        let bar = wide * 0.84 / bars.len().max(1) as f64;
        for (index, (name, value)) in bars.iter().enumerate() {
            let _infallible = write!(
                body,
                "<rect class=\"p{index}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\">\
                 <title>{name}, store {size} %: {value:.1}</title></rect>",
                x = left + wide * 0.08 + bar * index as f64,
                y = y(*value),
                width = bar * 0.9,
                height = BOTTOM - y(*value),
            );
        }
        let _infallible = write!(
            body,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">store {size} %</text>",
            left + wide / 2.0,
            BOTTOM + 18.0
        );
    }
    let name = measure.name;
    format!(
        "<figure><figcaption>{name}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{name} of each policy\">{body}</svg></figure>"
    )
}

/// A round distance of ticks, and the number of ticks that reach beyond `most`.
fn ticks(most: f64) -> (f64, u32) {
    let rough = (most / 4.0).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(power);
    (step, (most / step).ceil().max(1.0) as u32)
}
