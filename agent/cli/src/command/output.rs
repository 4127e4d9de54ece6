//! Everything the command prints: data to stdout, messages to stderr.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tetris_conventions::document;

use super::error::{Error, Result};
use super::exit::Code;

/// Table heads and the names of fields.
const HEAD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();

/// Format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document on one line.
    Json,
}

/// Stdout. A reader that has seen enough (`tetris ls | head`) ends the output, not the command.
pub(crate) struct Output {
    format: Format,
    out: Box<dyn Write>,
    closed: bool,
    /// True once the JSON document is printed: there is only one.
    documented: bool,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// Stdout, with colors where it is a terminal.
    pub(crate) fn stdout(format: Format) -> Self {
        Self {
            format,
            out: Box::new(anstream::stdout()),
            closed: false,
            documented: false,
        }
    }

    /// Returns true for JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns true if the reader of stdout has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, line: impl Display) -> Result {
        self.write(|out| writeln!(out, "{line}"))
    }

    /// Prints a heading.
    pub(crate) fn heading(&mut self, text: impl Display) -> Result {
        self.line(format_args!("{HEAD}{text}{HEAD:#}"))
    }

    /// Prints the result as one line of JSON, with the version of its schema.
    pub(crate) fn json(&mut self, result: &impl Serialize) -> Result {
        let result = serde_json::to_value(result).map_err(|e| Error::new(Code::Failed, e))?;
        self.documented = true;
        self.line(document::of_result(result))
    }

    /// Prints the error that ends the command as the JSON document, unless a result was printed:
    /// `verify` that finds damage has one.
    pub(crate) fn error_document(&mut self, error: &Error) {
        if !self.is_json() || self.documented {
            return;
        }
        let document = error.document();
        // The message is on stderr already, and the exit code has the rest.
        let _closed = self.line(document.to_json()).and_then(|()| self.flush());
    }

    /// Prints names and values, the values under one another.
    pub(crate) fn fields(&mut self, fields: &[(&str, String)]) -> Result {
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in fields {
            let pad = width - name.len();
            let value = printable(value);
            self.line(format_args!("{HEAD}{name}{HEAD:#}{:pad$}  {value}", ""))?;
        }
        Ok(())
    }

    /// Hands over what was printed.
    pub(crate) fn flush(&mut self) -> Result {
        self.write(|out| out.flush())
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result {
        if self.closed {
            return Ok(());
        }
        match write(&mut self.out) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => {
                let message = format!("cannot write to stdout: {error}");
                Err(Error::message(Code::Failed, message))
            }
        }
    }
}

/// `text` without control characters: names in a model file can be anything, and must not speak to the
/// terminal or look like another line.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// `text` as something good.
pub(crate) fn good(text: impl Display) -> String {
    format!("{GOOD}{text}{GOOD:#}")
}

/// `text` as the head of something.
pub(crate) fn head(text: impl Display) -> String {
    format!("{HEAD}{text}{HEAD:#}")
}

/// `text` as something worth knowing.
pub(crate) fn noted(text: impl Display) -> String {
    format!("{NOTE}{text}{NOTE:#}")
}

/// `text` as something that may be bad.
pub(crate) fn doubtful(text: impl Display) -> String {
    format!("{WARN}{text}{WARN:#}")
}

/// `text` as something bad.
pub(crate) fn bad(text: impl Display) -> String {
    format!("{BAD}{text}{BAD:#}")
}

/// Reports on stderr why the command ends.
pub(crate) fn error(message: impl Display) {
    say("error", BAD, &message);
}

/// Reports on stderr that something is not as it should be, though the command goes on.
pub(crate) fn warning(message: impl Display) {
    say("warning", WARN, &message);
}

/// Reports on stderr what is good to know.
pub(crate) fn note(message: impl Display) {
    say("note", NOTE, &message);
}

fn say(kind: &str, style: Style, message: &dyn Display) {
    // No one is left to tell when stderr is closed.
    let _ = writeln!(anstream::stderr(), "{style}{kind}:{style:#} {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        assert_eq!(printable("layer.0.weight"), "layer.0.weight");
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    }
}
