//! Trees as text of a template.

use serde_json::Value;

use super::substitutions::{BEGIN, END, LINES, RAW};
use super::tree::{Entry, Tree};

/// Words that YAML reads as something else than a string.
const RESERVED: [&str; 10] = [
    "true", "false", "yes", "no", "on", "off", "null", "y", "n", "~",
];

/// A tree as lines of YAML, each with its indent.
pub fn lines(tree: &Tree, indent: usize) -> Vec<String> {
    match tree {
        Tree::Map(entries) => {
            let lines = entries.iter().flat_map(|entry| map_entry(entry, indent));
            lines.collect()
        }
        Tree::List(entries) => {
            let lines = entries.iter().flat_map(|entry| list_entry(entry, indent));
            lines.collect()
        }
        _ => vec![format!("{:indent$}{}", "", inline(tree, indent))],
    }
}

fn map_entry(entry: &Entry, indent: usize) -> Vec<String> {
    let Entry::Of {
        key,
        condition,
        tree,
    } = entry
    else {
        return values(entry, indent);
    };
    let key = string(key);
    let lines = match tree {
        Tree::Map(entries) | Tree::List(entries) if !entries.is_empty() => {
            let mut all = vec![format!("{:indent$}{key}:", "")];
            all.extend(lines(tree, indent + 2));
            all
        }
        _ => vec![format!("{:indent$}{key}: {}", "", inline(tree, indent))],
    };
    under(condition.as_deref(), indent, lines)
}

fn list_entry(entry: &Entry, indent: usize) -> Vec<String> {
    let Entry::Of {
        condition, tree, ..
    } = entry
    else {
        return values(entry, indent);
    };
    let mut lines = lines(tree, indent + 2);
    let dash = format!("{:indent$}-", "");
    match lines.first_mut() {
        // The dash goes before the first field, unless that has a condition.
        Some(first) if !first.trim_start().starts_with("{{-") => {
            *first = format!("{dash} {}", first.trim_start());
        }
        _ => lines.insert(0, dash),
    }
    under(condition.as_deref(), indent, lines)
}

fn values(entry: &Entry, indent: usize) -> Vec<String> {
    let Entry::Values(expression) = entry else {
        return Vec::new();
    };
    vec![
        format!("{:indent$}{{{{- with {expression} }}}}", ""),
        format!("{:indent$}{{{{- toYaml . | nindent {indent} }}}}", ""),
        format!("{:indent$}{{{{- end }}}}", ""),
    ]
}

/// Lines under a condition.
pub fn under(condition: Option<&str>, indent: usize, mut lines: Vec<String>) -> Vec<String> {
    if let Some(condition) = condition {
        lines.insert(0, format!("{:indent$}{{{{- if {condition} }}}}", ""));
        lines.push(format!("{:indent$}{{{{- end }}}}", ""));
    }
    lines
}

/// A value behind its key.
fn inline(tree: &Tree, indent: usize) -> String {
    match tree {
        Tree::Scalar(value) => scalar(value, indent),
        Tree::Map(_) => "{}".to_owned(),
        Tree::List(_) => "[]".to_owned(),
        Tree::Choice {
            condition,
            then,
            otherwise,
        } => format!(
            "{{{{ if {condition} }}}}{}{{{{ else }}}}{}{{{{ end }}}}",
            scalar(then, indent),
            scalar(otherwise, indent)
        ),
    }
}

fn scalar(value: &Value, indent: usize) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    if let Some(expression) = text.strip_prefix(RAW) {
        return format!("{{{{ {} }}}}", expression.trim_end_matches(END));
    }
    if let Some(expression) = text.strip_prefix(LINES) {
        let (expression, indent) = (expression.trim_end_matches(END), indent + 2);
        return format!(
            "|\n{:indent$}{{{{- {expression} | nindent {indent} }}}}",
            ""
        );
    }
    let head = match text.strip_suffix('\n') {
        Some(rest) if !rest.ends_with('\n') => Some("|"),
        None => Some("|-"),
        Some(_) => None,
    };
    match head {
        Some(head) if text.trim_end().contains('\n') && !text.starts_with([' ', '\n']) => {
            let indent = indent + 2;
            let lines = text.trim_end_matches('\n').split('\n').map(|line| {
                let space = if line.is_empty() { 0 } else { indent };
                format!("\n{:space$}{}", "", template(line, str::to_owned))
            });
            format!("{head}{}", lines.collect::<String>())
        }
        _ => string(text),
    }
}

/// A string of one line.
fn string(text: &str) -> String {
    let mut characters = text.chars();
    let is_plain = characters.next().is_some_and(char::is_alphabetic)
        && characters.all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !RESERVED.contains(&text.to_lowercase().as_str());
    if is_plain {
        return text.to_owned();
    }
    let quoted = template(text, |literal| {
        let quoted = Value::from(literal).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    });
    format!("\"{quoted}\"")
}

/// Text of a template: marked expressions, and literals between them.
fn template(text: &str, literal: impl Fn(&str) -> String) -> String {
    let literal = |text: &str| literal(text).replace("{{", "{{ \"{{\" }}");
    let mut parts = text.split(BEGIN);
    let first = parts.next().map(&literal).unwrap_or_default();
    let others = parts.map(|part| {
        let (expression, rest) = part.split_once(END).unwrap_or((part, ""));
        format!("{{{{ {expression} }}}}{}", literal(rest))
    });
    first + &others.collect::<String>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(tree: &Tree) -> String {
        lines(tree, 0).join("\n")
    }

    #[test]
    fn strings_stay_strings_and_braces_stay_braces() {
        let value = json!({"a": "true", "b": "1", "c": "{{ x }}", "d": "x: y", "e": "one\n two\n", "f": "", "g": 1});
        let expected = "a: \"true\"\nb: \"1\"\nc: \"{{ \"{{\" }} x }}\"\nd: \"x: y\"\ne: |\n  one\n   two\nf: \"\"\ng: 1";
        assert_eq!(text(&Tree::of(&value)), expected);
    }

    #[test]
    fn expressions_keep_their_quotes() {
        let value = json!({"a": format!("\"{BEGIN}x \"y\"{END}/z")});
        assert_eq!(text(&Tree::of(&value)), r#"a: "\"{{ x "y" }}/z""#);
    }

    #[test]
    fn an_item_that_begins_with_a_condition_has_its_dash_before() {
        let base = json!([{"name": "a", "z": 1}]);
        let variant = json!([{"a": 2, "name": "a", "z": 1}]);
        let mut tree = Tree::of(&base);
        tree.vary(&base, &variant, "$.v");
        let expected = "-\n  {{- if $.v }}\n  a: 2\n  {{- end }}\n  name: a\n  z: 1";
        assert_eq!(text(&tree), expected);
    }
}
