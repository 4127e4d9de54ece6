//! Files made by tests: templates from golden files, the schema's fields from the programs, the page's table from the schema.

use std::collections::BTreeSet;
use std::fs;

use tetris_deploy_tests::chart::{FOLDER, TEMPLATES, schema, settings, templates};
use tetris_deploy_tests::files;

use super::values::default_of;

const SCHEMA: &str = "values.schema.json";
const PAGE: &str = "../docs/guides/helm.md";
const BEGIN: &str = "<!-- values: written by UPDATE_GOLDEN=1 -->\n\n";
const END: &str = "\n<!-- end of values -->\n";

/// Templates written by hand.
const BY_HAND: [&str; 3] = ["NOTES.txt", "_helpers.tpl", "checks.yaml"];

/// Writes the made files, for the tests of golden files.
pub fn write_chart() {
    let write = |path: &str, text: &str| fs::write(files::deploy().join(path), text).unwrap();
    for (path, text) in templates() {
        write(&path, &text);
    }
    write(&format!("{FOLDER}/{SCHEMA}"), &schema());
    write(PAGE, &page());
}

/// The page of the chart with its table of values.
fn page() -> String {
    let text = files::read(PAGE);
    let (before, rest) = text.split_once(BEGIN).expect(PAGE);
    let (_, after) = rest.split_once(END).expect(PAGE);
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    for setting in settings() {
        let default = default_of(&setting.name);
        let (name, description) = (setting.name, setting.description);
        table.extend([format!("| `{name}` | `{default}` | {description} |\n")]);
    }
    format!("{before}{BEGIN}{table}{END}{after}")
}

#[test]
fn templates_are_those_that_the_manifests_make() {
    let made = templates();
    for (path, text) in &made {
        let file = files::read(path);
        let mut lines = text.lines().zip(file.lines());
        let first = lines.find(|(new, old)| new != old);
        assert!(
            *text == file,
            "deploy/{path} differs from the manifests; first difference (new, old): {first:?}; UPDATE_GOLDEN=1 writes it"
        );
    }
    let by_hand = BY_HAND.map(|name| format!("{TEMPLATES}/{name}"));
    let paths = made.into_iter().map(|(path, _)| path);
    let expected: BTreeSet<_> = paths.chain(by_hand).collect();
    let files: BTreeSet<_> = files::below(TEMPLATES).into_iter().collect();
    assert_eq!(files, expected, "files of {TEMPLATES}");
}

#[test]
fn the_schema_has_the_fields_that_the_programs_know() {
    let expected = schema();
    let file = files::read(&format!("{FOLDER}/{SCHEMA}"));
    assert!(file == expected, "{SCHEMA} is out of date: UPDATE_GOLDEN=1");
}

#[test]
fn the_page_has_every_value_with_its_default() {
    assert!(
        files::read(PAGE) == page(),
        "{PAGE} is out of date: UPDATE_GOLDEN=1"
    );
}

#[test]
fn the_charts_version_is_the_programs() {
    let chart = files::read(&format!("{FOLDER}/Chart.yaml"));
    for field in ["version", "appVersion"] {
        let line = format!("{field}: {}", env!("CARGO_PKG_VERSION"));
        assert!(chart.lines().any(|other| other == line), "{line}");
    }
}
