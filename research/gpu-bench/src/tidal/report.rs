//! The paper's figures beside ours.

use serde::Serialize;
use tetris_conventions::text_table::TextTable;

/// A figure, and the bar that it should meet.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its figure or table.
    pub figure: String,
    /// The measured value.
    pub what: String,
    /// The paper's value, or its range.
    pub paper: (f64, f64),
    /// Ours.
    pub ours: f64,
    /// Least and greatest value that meets the bar.
    pub bar: (f64, f64),
}

impl Row {
    /// A value within a share of the paper's.
    pub fn near(figure: &str, what: &str, paper: f64, ours: f64, share: f64) -> Self {
        let bar = (paper * (1.0 - share), paper * (1.0 + share));
        Self::new(figure, what, (paper, paper), ours, bar)
    }

    /// A value that should be at least `least`.
    pub fn at_least(figure: &str, what: &str, paper: f64, ours: f64, least: f64) -> Self {
        Self::new(figure, what, (paper, paper), ours, (least, f64::MAX))
    }

    /// A value within the paper's range.
    pub fn between(figure: &str, what: &str, low: f64, high: f64, ours: f64) -> Self {
        Self::new(figure, what, (low, high), ours, (low, high))
    }

    fn new(figure: &str, what: &str, paper: (f64, f64), ours: f64, bar: (f64, f64)) -> Self {
        Self {
            figure: figure.to_owned(),
            what: what.to_owned(),
            paper,
            ours,
            bar,
        }
    }

    /// Returns true if the value meets its bar.
    pub fn is_met(&self) -> bool {
        (self.bar.0..=self.bar.1).contains(&self.ours)
    }
}

/// All figures of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TidalReport {
    /// The figures, in the order of the runs.
    pub rows: Vec<Row>,
}

impl TidalReport {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A table for people, at most 80 columns wide, with a final newline.
    pub fn text(&self) -> String {
        let mut table = TextTable::new(1, ["figure", "value", "#paper", "#ours", "met"]);
        for row in &self.rows {
            let (low, high) = row.paper;
            let paper = if (low - high).abs() < f64::EPSILON {
                number(low)
            } else {
                format!("{} to {}", number(low), number(high))
            };
            let met = if row.is_met() { "yes" } else { "NO" };
            table.add(vec![
                row.figure.clone(),
                row.what.clone(),
                paper,
                number(row.ours),
                met.to_owned(),
            ]);
        }
        table.format() + "\n"
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_a_terminal_and_names_bars_that_are_missed() {
        let mut report = TidalReport::default();
        let figure = "figure 18, Llama2-13B, 2 devices";
        let what = "24.8 GB/s, 400 ms: prefix as a share of the model; shortest that suffices \
                    beside the prediction";
        report.add(Row::between(figure, what, 1.76, 2.01, 1.5));
        report.add(Row::near(figure, "2k tokens, ms", 632.0, 640.0, 0.1));
        let text = report.text();
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{text}");
        let verdict = |value: &str| {
            let line = text.lines().find(|line| line.contains(value));
            line.and_then(|line| line.split_whitespace().next_back())
        };
        assert_eq!(
            [verdict("1.76 to 2.01"), verdict("632")],
            [Some("NO"), Some("yes")]
        );
    }
}
