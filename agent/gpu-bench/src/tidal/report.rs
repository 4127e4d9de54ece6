//! The paper's figures beside ours.

use std::fmt::Write;

use serde::Serialize;

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

    /// A table for people.
    pub fn text(&self) -> String {
        let mut text =
            String::from("| figure | value | paper | ours | met |\n|---|---|---|---|---|\n");
        for row in &self.rows {
            let (low, high) = row.paper;
            let paper = if (low - high).abs() < f64::EPSILON {
                number(low)
            } else {
                format!("{} to {}", number(low), number(high))
            };
            let met = if row.is_met() { "yes" } else { "**no**" };
            let (figure, what, ours) = (&row.figure, &row.what, number(row.ours));
            // Writing to a string cannot fail.
            let _written = writeln!(text, "| {figure} | {what} | {paper} | {ours} | {met} |");
        }
        text
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
