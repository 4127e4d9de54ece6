//! The recipes for contributors name files and tests that there are.

use std::collections::BTreeSet;
use std::fs;

use tetris_tests::sources::{repository, sources};

const PAGE: &str = "docs/contributing/recipes.md";

/// Texts between single backticks.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

fn is_test_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.matches('_').count() >= 2 && text.chars().all(letters)
}

#[test]
fn recipes_name_what_there_is() {
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    let is_path = |text: &&str| text.contains('/') && !text.contains(' ') && !text.contains("NAME");
    let paths: BTreeSet<&str> = quoted(&page).filter(is_path).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let exists = repository().join(path).exists();
        assert!(exists, "{PAGE} names `{path}`, which does not exist");
    }
    let tests: BTreeSet<&str> = quoted(&page).filter(|text| is_test_name(text)).collect();
    assert!(tests.len() > 10, "{tests:?}");
    let code: String = sources(&["rs"])
        .iter()
        .map(|path| fs::read_to_string(repository().join(path)).unwrap())
        .collect();
    for test in tests {
        let exists = code.contains(&format!("fn {test}("));
        assert!(
            exists,
            "{PAGE} names the test `{test}`, which does not exist"
        );
    }
}
