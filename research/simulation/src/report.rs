//! Forms of a report, and its output.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

/// Arguments for the form of the report.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Also write a page with plots to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Format of the report.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ReportFormat {
    /// Tables
    Text,
    /// The complete data as JSON
    Json,
}

impl ReportArgs {
    /// Prints `comparison`, and writes the page if the user asked for one.
    ///
    /// # Errors
    ///
    /// Fails if standard output or the file cannot be written.
    pub fn write<T: Serialize>(
        &self,
        comparison: &T,
        text: impl FnOnce(&T) -> String,
        page: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        let report = match self.format {
            ReportFormat::Text => text(comparison),
            ReportFormat::Json => serde_json::to_string_pretty(comparison)? + "\n",
        };
        io::stdout()
            .lock()
            .write_all(report.as_bytes())
            .context("writing the report")?;
        if let Some(path) = &self.html {
            fs::write(path, page(comparison))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}
