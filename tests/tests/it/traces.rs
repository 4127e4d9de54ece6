//! The page about traces names every span of the product.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Names of spans in a source file.
fn spans(text: &str) -> Vec<String> {
    let calls = text.split("_span!(").skip(1);
    let names = calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split('"').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_page_names_the_spans_of_the_product() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let listed = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(root)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let of_product = |path: &&str| path.contains("/src/") && !path.starts_with("tests/");
    let in_code: BTreeSet<_> = listed
        .lines()
        .filter(of_product)
        .filter_map(|path| std::fs::read_to_string(root.join(path)).ok())
        .flat_map(|text| spans(&text))
        .collect();
    let page = std::fs::read_to_string(root.join("docs/traces.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let on_page: BTreeSet<_> = rows
        .filter_map(|row| row.split('`').next())
        .map(str::to_owned)
        .collect();
    assert_eq!(in_code, on_page);
    assert!(in_code.len() > 10, "{in_code:?}");
}
