//! Entry point of `plan`.

use std::io::{self, Write};
use std::process::ExitCode;

use super::args::{Format, PlanArgs};
use super::error::PlanError;
use super::problem::Problem;
use super::report::Report;
use super::solve::solve;
use super::text::text;

/// Exit status of a plan that does not carry all loads.
const INFEASIBLE: u8 = 1;
/// Exit status for invalid input.
const BAD_INPUT: u8 = 2;

impl PlanArgs {
    /// Prints the plan to standard output, and errors to standard error.
    pub fn run(&self) -> ExitCode {
        // Errors of writing to standard error are ignored.
        self.run_with(&mut io::stdout().lock(), &mut io::stderr().lock())
    }

    /// Prints the plan to `out`, and errors to `err`.
    pub fn run_with(&self, out: &mut impl Write, err: &mut impl Write) -> ExitCode {
        match self.plan(out, err) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => INFEASIBLE.into(),
            Err(error) => {
                drop(writeln!(err, "error: {error}"));
                BAD_INPUT.into()
            }
        }
    }

    /// Prints the plan and returns true if it carries all loads.
    fn plan(&self, out: &mut impl Write, err: &mut impl Write) -> Result<bool, PlanError> {
        let problem = Problem::read(self)?;
        for note in &problem.cluster.notes {
            drop(writeln!(err, "note: {note}"));
        }
        let solved = solve(&problem);
        let report = Report::new(&problem, &solved, self.explain);
        for (index, function) in report.functions.iter().enumerate() {
            if !solved.carries(index) {
                let name = format!("{}/{}", function.namespace, function.name);
                drop(writeln!(err, "{name}: {}", function.message));
            }
        }
        let written = match self.format {
            Format::Text => out.write_all(text(&report).as_bytes()),
            Format::Json => serde_json::to_writer_pretty(&mut *out, &report)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out)),
        };
        match written.and_then(|()| out.flush()) {
            // The reader closed the pipe, as `| head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(report.feasible),
            written => written.map_err(PlanError::Output).map(|()| report.feasible),
        }
    }
}
