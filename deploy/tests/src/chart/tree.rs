//! Objects as templates: YAML whose entries may have a condition.

use serde_json::Value;

/// A value of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// A string, number, boolean or null. Strings may contain marked expressions.
    Scalar(Value),
    /// Fields by name.
    Map(Vec<Entry>),
    /// Items in order.
    List(Vec<Entry>),
    /// One of two scalars.
    Choice {
        /// Expression of the condition.
        condition: String,
        /// The scalar where it holds.
        then: Value,
        /// The scalar elsewhere.
        otherwise: Value,
    },
}

/// A field of a map, or an item of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An entry of the manifests.
    Of {
        /// Name of the field; identity of the item.
        key: String,
        /// Expression without which the entry is absent.
        condition: Option<String>,
        /// Its value.
        tree: Tree,
    },
    /// Entries of a map or list in the chart's values, by an expression.
    Values(String),
}

/// Identity of an item among the items of its list.
pub fn identity(item: &Value) -> String {
    let names = ["name", "mountPath", "key"];
    let name = names.iter().find_map(|field| item.get(field)?.as_str());
    name.map_or_else(|| item.to_string(), str::to_owned)
}

/// A condition that holds where another one does not.
pub fn negated(condition: &str) -> String {
    let positive = condition.strip_prefix("not ");
    positive.map_or_else(|| format!("not {condition}"), str::to_owned)
}

/// Fields or items of a value, by name or identity; none of a scalar.
fn entries(value: &Value) -> Option<Vec<(String, &Value)>> {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, field)| (key.clone(), field));
            Some(fields.collect())
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| (identity(item), item));
            Some(items.collect())
        }
        _ => None,
    }
}

impl Tree {
    /// A value without conditions.
    pub fn of(value: &Value) -> Self {
        let Some(entries) = entries(value) else {
            return Self::Scalar(value.clone());
        };
        let entries = entries.into_iter();
        let entries = entries.map(|(key, field)| Entry::new(key, None, field));
        if value.is_array() {
            Self::List(entries.collect())
        } else {
            Self::Map(entries.collect())
        }
    }

    /// Adds what differs in `variant`, under its condition. `base` is the value of this tree without conditions.
    pub fn vary(&mut self, base: &Value, variant: &Value, condition: &str) {
        if base == variant {
            return;
        }
        match (entries(base), entries(variant), self) {
            (Some(before), Some(after), Self::Map(of_template) | Self::List(of_template)) => {
                vary_entries(of_template, &before, &after, condition);
            }
            (None, None, tree) => {
                *tree = Self::Choice {
                    condition: condition.to_owned(),
                    then: variant.clone(),
                    otherwise: base.clone(),
                }
            }
            (_, _, tree) => panic!("{condition}: expected {tree:?}, found {variant}"),
        }
    }

    /// The entries at a path of names and identities, with `/` between.
    pub fn entries_at(&mut self, path: &str) -> &mut Vec<Entry> {
        let mut tree = self;
        for key in path.split('/').filter(|key| !key.is_empty()) {
            let (Self::Map(entries) | Self::List(entries)) = tree else {
                panic!("{path}: `{key}` is in a scalar");
            };
            let mut trees = entries.iter_mut().filter_map(|entry| match entry {
                Entry::Of {
                    key: name, tree, ..
                } if name == key => Some(tree),
                _ => None,
            });
            let next = trees.next();
            tree = next.unwrap_or_else(|| panic!("{path}: no `{key}`"));
        }
        match tree {
            Self::Map(entries) | Self::List(entries) => entries,
            _ => panic!("{path} is a scalar"),
        }
    }
}

impl Entry {
    /// An entry of the manifests.
    pub fn new(key: impl Into<String>, condition: Option<&str>, value: &Value) -> Self {
        Self::Of {
            key: key.into(),
            condition: condition.map(str::to_owned),
            tree: Tree::of(value),
        }
    }

    /// Returns true if it is the field or item of this name.
    pub fn is(&self, name: &str) -> bool {
        matches!(self, Self::Of { key, .. } if key == name)
    }
}

fn vary_entries(
    of_template: &mut Vec<Entry>,
    before: &[(String, &Value)],
    after: &[(String, &Value)],
    condition: &str,
) {
    // Position behind the last entry that both have, where new entries go.
    let mut position = 0;
    for (key, value) in after {
        let index = of_template.iter().position(|entry| entry.is(key));
        let earlier = before.iter().find(|(name, _)| name == key);
        match (index, earlier) {
            (Some(index), Some((_, earlier))) => {
                if let Entry::Of { tree, .. } = &mut of_template[index] {
                    tree.vary(earlier, value, condition);
                }
                position = index + 1;
            }
            (None, None) => {
                of_template.insert(position, Entry::new(key, Some(condition), value));
                position += 1;
            }
            _ => panic!("{condition}: `{key}` is also in another variant"),
        }
    }
    for entry in of_template {
        if let Entry::Of {
            key,
            condition: of_entry,
            ..
        } = entry
            && before.iter().any(|(name, _)| name == key)
            && !after.iter().any(|(name, _)| name == key)
        {
            assert_eq!(*of_entry, None, "{condition}: `{key}` has a condition");
            *of_entry = Some(negated(condition));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_variant_adds_removes_and_replaces_entries_under_its_condition() {
        let base = json!({"a": "1", "b": [{"name": "x"}, {"name": "y"}]});
        let variant = json!({"a": "2", "b": [{"name": "y"}, {"name": "z"}], "c": true});
        let mut tree = Tree::of(&base);
        tree.vary(&base, &variant, "$.v");
        let Tree::Map(fields) = &tree else {
            panic!("{tree:?}")
        };
        let conditions = |entries: &[Entry]| {
            let conditions = entries.iter().map(|entry| match entry {
                Entry::Of { key, condition, .. } => (key.clone(), condition.clone()),
                Entry::Values(values) => (values.clone(), None),
            });
            conditions.collect::<Vec<_>>()
        };
        let of =
            |key: &str, condition: Option<&str>| (key.to_owned(), condition.map(str::to_owned));
        assert_eq!(
            conditions(fields),
            [of("a", None), of("b", None), of("c", Some("$.v"))]
        );
        assert_eq!(
            conditions(tree.entries_at("b")),
            [
                of("x", Some("not $.v")),
                of("y", None),
                of("z", Some("$.v"))
            ]
        );
    }

    #[test]
    #[should_panic(expected = "also in another variant")]
    fn two_variants_with_one_entry_are_refused() {
        let base = json!({});
        let variant = json!({"a": 1});
        let mut tree = Tree::of(&base);
        tree.vary(&base, &variant, "$.v");
        tree.vary(&base, &variant, "$.w");
    }
}
