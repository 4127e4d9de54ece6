//! Lines of a configuration file by field.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// The line of each field that is in a file.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// Finds the lines of `text`. Returns the mistakes of its syntax too, each with its line.
    pub(super) fn parse(text: &str) -> (Self, Vec<(String, Option<usize>)>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let errors = errors.iter().map(|error| {
            let line = error.span().map(|span| line_at(text, span.start));
            (error.message().to_owned(), line)
        });
        let errors = errors.collect();
        let mut lines = Self::default();
        lines.add_table(text, "", root.get_ref());
        (lines, errors)
    }

    /// The line of `field`, or of the table that it belongs to.
    pub(super) fn of(&self, field: &str) -> Option<usize> {
        let mut field = field;
        loop {
            if let Some(line) = self.0.get(field) {
                return Some(*line);
            }
            let (parent, _) = field.rsplit_once(['.', '['])?;
            field = parent;
        }
    }

    fn add_table(&mut self, text: &str, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            self.0.insert(path.clone(), line_at(text, key.span().start));
            self.add(text, &path, value.get_ref());
        }
    }

    fn add(&mut self, text: &str, path: &str, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => self.add_table(text, path, table),
            DeValue::Array(list) => {
                for (index, entry) in list.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.0
                        .insert(path.clone(), line_at(text, entry.span().start));
                    self.add(text, &path, entry.get_ref());
                }
            }
            _ => {}
        }
    }
}

/// The line of a byte offset, from 1.
fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}
