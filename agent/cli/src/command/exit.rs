//! Exit codes, in one place.

use std::process::ExitCode;

/// Meaning of the command's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The operation failed: input and output, permissions, memory.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// There is no store that this build can use.
    NoStore = 3,
    /// The model is missing or invalid.
    Model = 4,
    /// `verify` found damage.
    Damage = 5,
    /// `doctor` found warnings, and no failure.
    Warnings = tetris_cli::doctor::WARNINGS as isize,
    /// `doctor` found a failure.
    Failures = tetris_cli::doctor::FAILURES as isize,
    /// `exec`: CMD cannot be executed.
    NotExecutable = 126,
    /// `exec`: CMD was not found.
    NotFound = 127,
}

/// The end of `tetris --help`; a test compares it with [`Code`].
pub(crate) const HELP: &str = "\
Exit codes:
    0  success
    1  the operation failed (input or output, permissions, memory)
    2  the command line is wrong
    3  no usable store: missing, of another version, or its header is damaged
    4  the model is missing or invalid
    5  verify found damage
    6  doctor found warnings: something works less well than it could
    7  doctor found a failure: something does not work
  126  exec: CMD cannot be executed
  127  exec: CMD was not found
  Once CMD runs, exec ends as CMD does.

Output goes to stdout, messages and progress to stderr. With --format json, each result or error \
is one JSON document on one line: complete ids, bytes as integers, times in seconds (docs/json.md). \
--log debug, or TETRIS_LOG=debug, shows what the agent does.";

impl Code {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NoStore => "no-store",
            Self::Model => "model",
            Self::Damage => "damage",
            Self::Warnings => "warnings",
            Self::Failures => "failures",
            Self::NotExecutable => "not-executable",
            Self::NotFound => "not-found",
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_code() {
        let codes = [
            (Code::Failed, "failed"),
            (Code::Usage, "command line"),
            (Code::NoStore, "no usable store"),
            (Code::Model, "model"),
            (Code::Damage, "damage"),
            (Code::Warnings, "doctor found warnings"),
            (Code::Failures, "doctor found a failure"),
            (Code::NotExecutable, "cannot be executed"),
            (Code::NotFound, "not found"),
        ];
        for (code, word) in codes {
            let number = (code as u8).to_string();
            let line = HELP
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{number} ")));
            assert!(line.is_some_and(|line| line.contains(word)), "{code:?}");
        }
        let documented = HELP.lines().filter(|line| {
            let first = line.split_whitespace().next().unwrap_or_default();
            !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit())
        });
        assert_eq!(documented.count(), codes.len() + 1, "0 and the codes above");
    }
}
