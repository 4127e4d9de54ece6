//! The report as text.

use std::fmt::Write;

use super::{
    Bar, Figure, Findings, Limit, MeasureOutcome, Measured, Report, SIMULATED, Series, Unit,
};
use crate::units::{bytes, seconds, three_digits};

impl Report {
    /// Formats the report as text, with a final newline.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let driver = self.device.driver.as_deref();
        let driver = driver.map_or(String::new(), |driver| format!(", driver {driver}"));
        writeln!(out, "{}  {}{driver}", self.date, self.device.name)?;
        let (machine, model) = (&self.machine, &self.model);
        let memory = bytes(machine.memory_bytes as f64);
        writeln!(
            out,
            "machine: {}, {} threads, {memory}, Linux {}",
            machine.processor, machine.threads, machine.kernel
        )?;
        let source = model.file.as_deref().unwrap_or("generated");
        writeln!(
            out,
            "model: {source}, {} in {} tensors",
            bytes(model.bytes as f64),
            model.tensors
        )?;
        if self.device.simulated {
            writeln!(out, "SIMULATED: {SIMULATED}")?;
        }
        for store in &self.stores {
            let pages = store.pages.as_deref().unwrap_or("unknown");
            writeln!(out, "store in {}: pages of {pages}", store.directory)?;
        }
        for measured in &self.measures {
            writeln!(out)?;
            measured.write(out, self.stores.len() > 1)?;
        }
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

impl Measured {
    /// Formats the result as text, with a final newline.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, true);
        text
    }

    fn write(&self, out: &mut String, with_store: bool) -> std::fmt::Result {
        write!(out, "{}", self.name)?;
        if with_store {
            write!(out, " (store in {})", self.store_dir)?;
        }
        writeln!(out, ": {}", self.about)?;
        match &self.outcome {
            MeasureOutcome::Measured(findings) => findings.write(out),
            MeasureOutcome::Skipped { reason } => writeln!(out, "  skipped: {reason}"),
            MeasureOutcome::Failed { reason } => writeln!(out, "  FAILED: {reason}"),
        }
    }
}

impl Findings {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let names = self.series.iter().map(|series| series.name.as_str());
        let names = names.chain(self.figures.iter().map(|figure| figure.name.as_str()));
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
        for series in &self.series {
            series.write(out, width)?;
        }
        for figure in &self.figures {
            figure.write(out, width)?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(out, "  ({note})"))
    }
}

impl Series {
    fn write(&self, out: &mut String, width: usize) -> std::fmt::Result {
        let show = |value| self.unit.show(value);
        write!(out, "  {:width$}  {:>12}", self.name, show(self.median))?;
        match self.samples.len() {
            1 => writeln!(out, "   1 sample"),
            count => writeln!(
                out,
                "   {} to {}, {count} samples",
                show(self.min),
                show(self.max)
            ),
        }
    }
}

impl Figure {
    fn write(&self, out: &mut String, width: usize) -> std::fmt::Result {
        let value = self.unit.show(self.value);
        write!(out, "  {:width$}  {value:>12}", self.name)?;
        if let Some(Bar { limit, met }) = self.bar {
            let (word, limit) = match limit {
                Limit::AtMost(limit) => ("at most", limit),
                Limit::AtLeast(limit) => ("at least", limit),
            };
            let judged = match met {
                Some(true) => "met",
                Some(false) => "NOT MET",
                None => "not judged",
            };
            write!(out, "   bar: {word} {}: {judged}", self.unit.show(limit))?;
        }
        writeln!(out)
    }
}

impl Unit {
    /// Formats a value with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => seconds(value),
            Self::Bytes => bytes(value),
            Self::BytesPerSecond => format!("{} GB/s", three_digits(value / 1e9)),
            Self::Count => format!("{value:.0}"),
            Self::Ratio => format!("{value:.3} x"),
        }
    }
}
