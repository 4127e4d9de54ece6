//! Templates: their objects of the manifests, each under its conditions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::substitutions::{END, LINES, Substitutions};
use super::tree::{Tree, negated};
use super::{TEMPLATES, yaml};
use crate::files;
use crate::objects::{Objects, list, text};

const HEAD: &str = "{{- /* Made from deploy/tests/golden and deploy/tests/src/chart/table.yaml by a test (UPDATE_GOLDEN=1); change those. */ -}}\n";

/// Files of configuration in ConfigMaps: the ConfigMap, its file, and the program's name.
const CONFIGURATIONS: [(&str, &str, &str); 2] = [
    ("tetris-node", "node.toml", "node"),
    ("tetris-gateway", "gateway.toml", "gateway"),
];

/// Objects by kind and name.
type Named = BTreeMap<String, Value>;

/// Paths below `deploy/` and texts of the templates.
///
/// # Panics
/// When the table of values does not fit the manifests, with the row or object.
pub fn templates() -> Vec<(String, String)> {
    let table = Substitutions::read();
    let templates = table.rows("templates").iter();
    let templates: Vec<_> = templates
        .map(|row| {
            let path = format!("{TEMPLATES}/{}.yaml", text(&row["file"]));
            (path, template(&table, row))
        })
        .collect();
    let unused = table.unused();
    assert!(
        unused.is_empty(),
        "rows of table.yaml that find nothing: {unused:?}"
    );
    templates
}

fn template(table: &Substitutions, row: &Value) -> String {
    let condition = row["condition"].as_str();
    let before = row["but"].as_str().map(|name| golden(table, name));
    let before = before.unwrap_or_default();
    let variants = list(&row["variants"]).iter().map(|variant| {
        let mut objects = golden(table, text(&variant["golden"]));
        for row in list(&variant["less"]) {
            let object = objects.get_mut(text(&row["of"]));
            let fields = object.and_then(Value::as_object_mut);
            let removed = fields.and_then(|fields| fields.remove(text(&row["key"])));
            assert!(removed.is_some(), "{row}: finds nothing");
        }
        (objects, text(&variant["condition"]))
    });
    let variants: Vec<_> = variants.collect();
    let all = match row["manifest"].as_str() {
        Some(path) => {
            let objects = Objects::parse(&files::read(path));
            named(
                table,
                objects.unwrap_or_else(|error| panic!("{path}: {error}")),
            )
        }
        None => golden(table, text(&row["of"])),
    };
    for (name, object) in &before {
        let is_same = all.get(name) == Some(object);
        assert!(
            is_same,
            "{row}: {name} is not as it is without this template"
        );
    }
    let mut output = HEAD.to_owned();
    for (name, object) in all {
        // Helm makes the namespace, before it knows of any object.
        if before.contains_key(&name) || name.starts_with("Namespace ") {
            continue;
        }
        let mut conditions: Vec<_> = condition.into_iter().map(str::to_owned).collect();
        conditions.extend(table.conditions(&name));
        let mut tree = Tree::of(&object);
        for (objects, condition) in &variants {
            match objects.get(&name) {
                Some(variant) => tree.vary(&object, variant, condition),
                None => conditions.push(negated(condition)),
            }
        }
        table.extend(&name, &mut tree);
        let mut lines = vec!["---".to_owned()];
        lines.extend(yaml::lines(&tree, 0));
        if name.starts_with("Configuration ") {
            // For a template of this chart, not for Kubernetes.
            let program = name.replace("Configuration ", "");
            lines[0] = format!("{{{{- define \"tetris.{program}.defaults\" }}}}");
            lines.push("{{- end }}".to_owned());
            conditions.clear();
        }
        let lines = yaml::under(joined(&conditions).as_deref(), 0, lines);
        output.extend(lines.iter().flat_map(|line| [line.as_str(), "\n"]));
    }
    output
}

fn joined(conditions: &[String]) -> Option<String> {
    match conditions {
        [] => None,
        [condition] => Some(condition.clone()),
        all => {
            let all = all.iter().map(|condition| {
                let is_one_word = !condition.contains(' ');
                if is_one_word {
                    format!(" {condition}")
                } else {
                    format!(" ({condition})")
                }
            });
            Some(format!("and{}", all.collect::<String>()))
        }
    }
}

/// The objects of a golden file.
fn golden(table: &Substitutions, name: &str) -> Named {
    named(table, Objects::golden(name).without_hashes())
}

/// Objects with expressions in the place of values. Configurations in ConfigMaps become objects of the kind `Configuration`.
fn named(table: &Substitutions, objects: Objects) -> Named {
    let mut all = Named::new();
    for object in objects.0 {
        let name = format!(
            "{} {}",
            text(&object["kind"]),
            text(&object["metadata"]["name"])
        );
        let mut substituted = table.substituted(&name, "", &object);
        for (map, file, program) in CONFIGURATIONS {
            if name == format!("ConfigMap {map}") {
                let name = format!("Configuration {program}");
                let tables = toml::from_str(text(&object["data"][file]));
                let tables: Value = tables.unwrap_or_else(|error| panic!("{name}: {error}"));
                all.insert(name.clone(), table.substituted(&name, "", &tables));
                let expression = format!("{LINES}include \"tetris.{program}.toml\" ${END}");
                substituted["data"][file] = expression.into();
            }
        }
        all.insert(name, substituted);
    }
    all
}
