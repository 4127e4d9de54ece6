//! The file as it is written: all its mistakes at once, each with its line.
//!
//! Deserialization ends at the first mistake. So the field with the mistake is taken out and the
//! rest is read again, until nothing is wrong.

use std::path::{Path, PathBuf};

use serde_path_to_error::Segment;
use tetris_conventions::nearest;
use toml::Value;

use super::error::ConfigMistake;
use super::lines::Lines;
use super::{Config, ConfigError, ConfigFile};

/// Most mistakes of one file that are reported.
const MOST: usize = 100;

/// A read file, with its mistakes so far.
#[derive(Debug, Default)]
pub(super) struct ReadFile {
    /// The readable part.
    pub(super) file: ConfigFile,
    path: Option<PathBuf>,
    lines: Lines,
    mistakes: Vec<ConfigMistake>,
    /// Fields that were taken out, and lists that lost entries: the rest of such a list counts its
    /// entries anew.
    unreadable: Vec<String>,
}

impl ReadFile {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads `text`, which is at `path`.
    ///
    /// # Errors
    /// When it is not TOML: nothing is known of its fields then.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let (lines, errors) = Lines::parse(text);
        let not_toml = |message: &str, line| ConfigMistake {
            file: Some(path.to_owned()),
            line,
            field: None,
            message: message.trim_end().to_owned(),
        };
        if !errors.is_empty() {
            let mistakes = errors.into_iter().take(MOST);
            let mistakes = mistakes.map(|(message, line)| not_toml(&message, line));
            return Err(ConfigError::Wrong(mistakes.collect()));
        }
        let tree: toml::Table = toml::from_str(text)
            .map_err(|error| ConfigError::Wrong(vec![not_toml(error.message(), None)]))?;
        let mut this = Self {
            path: Some(path.to_owned()),
            lines,
            ..Self::default()
        };
        this.fill(Value::Table(tree));
        Ok(this)
    }

    /// Fills the fields from `tree`, and takes out those that are wrong.
    fn fill(&mut self, mut tree: Value) {
        let mut gone: Vec<(String, usize)> = Vec::new();
        while self.mistakes.len() < MOST {
            let error = match serde_path_to_error::deserialize(tree.clone()) {
                Ok(file) => {
                    self.file = file;
                    return;
                }
                Err(error) => error,
            };
            let path: Vec<Segment> = error
                .path()
                .iter()
                .filter(|part| matches!(part, Segment::Map { .. } | Segment::Seq { .. }))
                .cloned()
                .collect();
            let field = written(&path, &gone);
            let message = with_nearest(error.inner().message());
            self.mistakes.push(ConfigMistake {
                file: self.path.clone(),
                line: self.lines.of(&field),
                field: (!field.is_empty()).then_some(field),
                message,
            });
            if !take_out(&mut tree, &path, &mut gone) {
                return;
            }
            let fields = self.mistakes.iter().filter_map(|known| known.field.clone());
            let lists = gone.iter().map(|(list, _)| list.clone());
            self.unreadable = fields.chain(lists).collect();
        }
    }

    /// Checks the fields, those of the command line included.
    pub(super) fn check(self) -> Result<Config, ConfigError> {
        let Self {
            file,
            path,
            lines,
            mut mistakes,
            unreadable,
        } = self;
        match file.checked() {
            Ok(config) if mistakes.is_empty() => return Ok(config),
            Ok(_) => {}
            Err(errors) => {
                let errors = errors.iter().filter(|error| {
                    // A field that could not be read has its default here.
                    !unreadable.iter().any(|field| related(field, &error.field))
                });
                mistakes.extend(errors.map(|error| {
                    let line = lines.of(&error.field);
                    let file = line.and(path.as_deref());
                    ConfigMistake::of_field(error).at(file, line)
                }));
            }
        }
        mistakes.sort_by_key(|mistake| mistake.line.unwrap_or(usize::MAX));
        Err(ConfigError::Wrong(mistakes))
    }

    /// The file, if it has no mistakes.
    pub(super) fn complete(self) -> Result<ConfigFile, ConfigError> {
        if self.mistakes.is_empty() {
            return Ok(self.file);
        }
        Err(ConfigError::Wrong(self.mistakes))
    }
}

/// Returns true if one of the fields is the other, or lies in it.
fn related(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    within(one, other) || within(other, one)
}

/// The path as it stands in the file: entries of lists that were taken out count again.
fn written(path: &[Segment], gone: &[(String, usize)]) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            Segment::Seq { index } => {
                let mut index = *index;
                let mut earlier: Vec<usize> = gone
                    .iter()
                    .filter(|(list, _)| *list == text)
                    .map(|(_, index)| *index)
                    .collect();
                earlier.sort_unstable();
                for taken in earlier {
                    index += usize::from(taken <= index);
                }
                text.extend(["[", &index.to_string(), "]"]);
            }
            Segment::Map { key } => {
                if !text.is_empty() {
                    text.push('.');
                }
                text += key;
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    text
}

/// Takes the field at `path` out of `tree`. Returns false if there is none.
fn take_out(tree: &mut Value, path: &[Segment], gone: &mut Vec<(String, usize)>) -> bool {
    let Some((last, parents)) = path.split_last() else {
        return false;
    };
    let mut at = tree;
    for part in parents {
        let next = match part {
            Segment::Map { key } => at.get_mut(key.as_str()),
            Segment::Seq { index } => at.get_mut(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(next) = next else {
            return false;
        };
        at = next;
    }
    match (last, at) {
        (Segment::Map { key }, Value::Table(table)) => table.remove(key).is_some(),
        (Segment::Seq { index }, Value::Array(list)) if *index < list.len() => {
            let list_path = written(parents, gone);
            let whole = written(path, gone);
            let number = whole
                .strip_prefix(&list_path)
                .and_then(|rest| rest.trim_matches(['[', ']']).parse().ok());
            list.remove(*index);
            gone.push((list_path, number.unwrap_or(*index)));
            true
        }
        _ => false,
    }
}

/// The message, with the nearest of the names that it expects.
fn with_nearest(message: &str) -> String {
    let Some((unknown, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let is_name = unknown.starts_with("unknown field") || unknown.starts_with("unknown variant");
    let near = quoted(unknown)
        .next()
        .and_then(|found| nearest(found, quoted(expected)));
    match near {
        Some(near) if is_name => format!("{unknown}; did you mean `{near}`?"),
        _ => message.to_owned(),
    }
}

/// The names between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
