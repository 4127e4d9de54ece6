//! The size of the product: lines of code without tests, comments and blank lines, outside of `research/`. Ceilings only fall.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const RUST: usize = 124_500;
const PYTHON: usize = 12_428;

/// Parts of paths, and ends of names, of what is not the product.
const OUTSIDE: [&str; 5] = ["tests", "benches", "examples", "fuzz", "research"];

fn is_product(path: &str) -> bool {
    let is_outside = |part| OUTSIDE.contains(&part);
    !path.split('/').any(is_outside) && !path.ends_with("tests.rs")
}

/// Lines of code of a file, up to its tests.
fn lines(text: &str, comment: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines
        .take_while(|line| *line != "#[cfg(test)]")
        .filter(|line| !line.is_empty() && !line.starts_with(comment))
        .count()
}

/// Folder that a file's lines count for: its crate, or the Python package.
fn owner(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(owner, _)| owner)
}

#[test]
fn the_product_does_not_grow_beyond_its_ceilings() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let listed = Command::new("git")
        .args(["ls-files", "*.rs", "*.py"])
        .current_dir(root)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let (mut by_owner, mut rust, mut python) = (BTreeMap::<_, usize>::new(), 0, 0);
    for path in listed.lines().filter(|path| is_product(path)) {
        // A removed file, and is still in the index.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        if Path::new(path).extension().is_some_and(|end| end == "py") {
            python += lines(&text, "#");
        } else {
            let count = lines(&text, "//");
            *by_owner.entry(owner(path)).or_default() += count;
            rust += count;
        }
    }
    assert!(
        rust > RUST / 2 && rust <= RUST,
        "{rust} lines of Rust, expected {RUST} at most: {by_owner:?}"
    );
    assert!(
        python > PYTHON / 2 && python <= PYTHON,
        "{python} lines of Python, expected {PYTHON} at most"
    );
}

#[test]
fn code_is_counted_without_tests_and_comments() {
    let text = "// a\n\nfn a() {\n    // b\n}\n\n#[cfg(test)]\nmod tests {}\n";
    assert_eq!(lines(text, "//"), 2);
    assert!(is_product("agent/src/lib.rs") && !is_product("agent/tests/it/main.rs"));
    assert!(!is_product("research/replay/src/lib.rs") && !is_product("a/src/tests.rs"));
}
