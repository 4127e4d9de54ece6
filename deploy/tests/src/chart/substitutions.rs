//! The table of fields that take values of the chart.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

use super::tree::{Entry, Tree};
use crate::objects::{list, text};

/// Begin of an expression in a string.
pub const BEGIN: char = '\u{1}';
/// End of an expression.
pub const END: char = '\u{2}';
/// Begin of an expression whose result is the whole value, without quotes.
pub const RAW: char = '\u{3}';

/// Begin of an expression whose result is a text of several lines.
pub const LINES: char = '\u{4}';

const TABLE: &str = include_str!("table.yaml");

/// The table, and the rows that found something.
#[derive(Debug)]
pub struct Substitutions {
    table: Value,
    used: RefCell<BTreeSet<String>>,
}

impl Substitutions {
    /// Reads the table.
    ///
    /// # Panics
    /// When it is not YAML.
    pub fn read() -> Self {
        let table = serde_saphyr::from_str(TABLE);
        Self {
            table: table.unwrap_or_else(|error| panic!("table.yaml: {error}")),
            used: RefCell::default(),
        }
    }

    /// Rows of a part of the table.
    pub fn rows(&self, part: &str) -> &[Value] {
        list(&self.table[part])
    }

    /// Rows of a part for an object.
    fn rows_of<'a>(&'a self, part: &str, object: &str) -> impl Iterator<Item = &'a Value> {
        let rows = self.rows(part).iter();
        rows.filter(move |row| is_of(text(&row["of"]), object))
    }

    fn note(&self, row: &Value) {
        self.used.borrow_mut().insert(row.to_string());
    }

    /// Rows that found nothing.
    pub fn unused(&self) -> Vec<&Value> {
        let parts = ["conditions", "entries", "texts", "fields", "extensions"];
        let rows = parts.iter().flat_map(|part| self.rows(part));
        let used = self.used.borrow();
        rows.filter(|row| !used.contains(&row.to_string()))
            .collect()
    }

    /// An object's value with expressions in the place of its fields.
    pub fn substituted(&self, object: &str, key: &str, value: &Value) -> Value {
        let fits = |row: &&Value| row["key"] == key && row["value"] == *value;
        if let Some(row) = self.rows_of("fields", object).find(fits) {
            self.note(row);
            let expression = text(&row["expression"]);
            // A string has quotes, which keep the result a string.
            return if value.is_string() {
                format!("{BEGIN}{expression}{END}").into()
            } else {
                format!("{RAW}{expression}{END}").into()
            };
        }
        match value {
            Value::String(string) => {
                let texts = self.rows("texts").iter();
                let string = texts.fold(string.clone(), |string, row| {
                    let replaced = text(&row["text"]);
                    if string.contains(replaced) {
                        self.note(row);
                    }
                    let expression = format!("{BEGIN}{}{END}", text(&row["expression"]));
                    string.replace(replaced, &expression)
                });
                string.into()
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| self.substituted(object, "", item));
                items.collect()
            }
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields =
                    fields.map(|(key, field)| (key.clone(), self.substituted(object, key, field)));
                Value::Object(fields.collect())
            }
            _ => value.clone(),
        }
    }

    /// Conditions of an object besides that of its template.
    pub fn conditions(&self, object: &str) -> Vec<String> {
        let rows = self.rows_of("conditions", object);
        let conditions = rows.map(|row| {
            self.note(row);
            text(&row["condition"]).to_owned()
        });
        conditions.collect()
    }

    /// Gives an object's tree the conditions and the further entries of the table.
    pub fn extend(&self, object: &str, tree: &mut Tree) {
        for row in self.rows_of("entries", object) {
            self.note(row);
            let (name, path) = (text(&row["key"]), text(&row["path"]));
            let entries = tree.entries_at(path).iter_mut();
            let mut conditions = entries.filter_map(|entry| match entry {
                Entry::Of { key, condition, .. } if key == name => Some(condition),
                _ => None,
            });
            let condition = conditions.next();
            let condition = condition.unwrap_or_else(|| panic!("{object}: no {path}/{name}"));
            *condition = Some(text(&row["condition"]).to_owned());
        }
        for row in self.rows_of("extensions", object) {
            self.note(row);
            let expression = text(&row["expression"]).to_owned();
            let path = text(&row["path"]);
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let is_there = tree.entries_at(parent).iter().any(|entry| entry.is(name));
            if is_there {
                tree.entries_at(path).push(Entry::Values(expression));
            } else {
                let entry = Entry::Of {
                    key: name.to_owned(),
                    condition: Some(expression.clone()),
                    tree: Tree::Map(vec![Entry::Values(expression)]),
                };
                tree.entries_at(parent).push(entry);
            }
        }
    }
}

/// Returns true if a row for `of` is for an object, `KIND NAME`.
fn is_of(of: &str, object: &str) -> bool {
    let kind = object.split(' ').next();
    of.is_empty() || of == object || Some(of) == kind
}
