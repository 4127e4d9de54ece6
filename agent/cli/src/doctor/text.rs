//! A diagnosis in words, for people.

use std::fmt::Write as _;

use super::check::{Check, Diagnosis, Section, Status};

/// Width of the text in columns. A word that is longer, e.g. a path, stands whole on its line.
const WIDTH: usize = 80;
/// Width of the mark before each check.
const MARK: usize = 4;
/// Longest name of a check that gets its own column.
const NAME: usize = 12;

/// The mark of a result: at most 4 columns.
const fn mark(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Note => "note",
        Status::Warning => "warn",
        Status::Failure => "FAIL",
    }
}

/// The parts of the text that can be emphasized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// Name of a section.
    Heading,
    /// Mark of a check.
    Mark(Status),
}

/// Writes a diagnosis as text. `emphasize` may put escape sequences around a part.
pub fn render(diagnosis: &Diagnosis, emphasize: impl Fn(Emphasis, &str) -> String) -> String {
    let mut text = String::new();
    for section in &diagnosis.sections {
        write_section(&mut text, section, &emphasize);
        text.push('\n');
    }
    text.push_str(&diagnosis.summary());
    text.push('\n');
    text
}

fn write_section(
    text: &mut String,
    section: &Section,
    emphasize: &impl Fn(Emphasis, &str) -> String,
) {
    text.push_str(&emphasize(Emphasis::Heading, &printable(&section.name)));
    if let Some(subject) = &section.subject {
        let _infallible = write!(text, "  {}", printable(subject));
    }
    text.push('\n');
    let names = section
        .checks
        .iter()
        .map(|check| check.name.chars().count());
    let width = names.max().unwrap_or(0).min(NAME);
    for check in &section.checks {
        write_check(text, check, width, emphasize);
    }
}

fn write_check(
    text: &mut String,
    check: &Check,
    name_width: usize,
    emphasize: &impl Fn(Emphasis, &str) -> String,
) {
    let mark = mark(check.status);
    let pad = MARK - mark.len();
    let mark = emphasize(Emphasis::Mark(check.status), mark);
    let name = printable(&check.name);
    let _infallible = write!(text, "  {mark}{:pad$}  {name:name_width$}  ", "");
    let indent = 2 + MARK + 2 + name_width + 2;
    // A name that is too long for its column moves its first line to the right.
    let over = name.chars().count().saturating_sub(name_width);
    write_wrapped(text, &printable(&check.found), indent, over);
    for (label, line) in [("expected", &check.expected), ("remedy", &check.remedy)] {
        if let Some(line) = line {
            let _infallible = write!(text, "{:indent$}", "");
            write_wrapped(text, &format!("{label}: {}", printable(line)), indent, 0);
        }
    }
}

/// Writes words whose first line is begun at column `indent + over`, and the others at `indent`.
fn write_wrapped(text: &mut String, words: &str, indent: usize, over: usize) {
    let mut column = indent + over;
    let mut first = true;
    for word in words.split(' ') {
        let width = word.chars().count();
        if first {
            first = false;
        } else if column + 1 + width > WIDTH {
            let _infallible = write!(text, "\n{:indent$}", "");
            column = indent;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
}

/// `text` without control characters: paths and names of processes can be anything.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(checks: Vec<Check>) -> String {
        let mut section = Section::new("store", Some("/dev/shm/tetris".into()));
        section.checks = checks;
        let diagnosis = Diagnosis {
            sections: vec![section],
        };
        render(&diagnosis, |_, text| text.to_owned())
    }

    #[test]
    fn names_and_findings_stand_under_one_another() {
        let text = plain(vec![
            Check::ok("layout", "format version 1"),
            Check::warning("publish", "read-only")
                .expected("a writable store, or a daemon")
                .remedy("sudo tetris-node"),
        ]);
        let expected = "\
store  /dev/shm/tetris
  ok    layout   format version 1
  warn  publish  read-only
                 expected: a writable store, or a daemon
                 remedy: sudo tetris-node

1 ok, 1 warning
";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_fit_a_terminal_and_words_stay_whole() {
        let long = "word ".repeat(60);
        let path = format!("/{}", "x".repeat(150));
        let text = plain(vec![
            Check::note("a name that is long", long.trim_end()),
            Check::note("b", format!("{long}{path}")).remedy(&long),
        ]);
        let wide: Vec<&str> = text
            .lines()
            .filter(|line| line.chars().count() > WIDTH)
            .collect();
        assert_eq!(wide.len(), 1, "{text}");
        assert_eq!(wide.first().unwrap().trim_start(), path);
        assert_eq!(text.matches("word").count(), 180);
    }

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        let text = plain(vec![Check::ok("a\u{1b}[2J", "b\nc").remedy("d\r")]);
        let controls = text.chars().filter(|c| c.is_control() && *c != '\n');
        assert_eq!(controls.count(), 0, "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn emphasis_changes_no_column() {
        let diagnosis = Diagnosis {
            sections: vec![Section {
                checks: vec![Check::failure("a", "b")],
                ..Section::new("store", None)
            }],
        };
        let text = render(&diagnosis, |_, text| format!("<{text}>"));
        assert!(text.starts_with("<store>\n  <FAIL>  a  b\n"), "{text}");
    }
}
