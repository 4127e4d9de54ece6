//! Words that docs/glossary.md rules out. None is left.

use std::fs;
use std::path::Path;

use tetris_tests::sources::{repository, sources};

const GLOSSARY: &str = "docs/glossary.md";

/// Files that name ruled-out words to rule them out.
const RULES: [&str; 4] = [GLOSSARY, "STYLE.md", "vocabulary.rs", "words.rs"];

#[test]
fn words_that_the_glossary_rules_out_do_not_come_back() {
    let text = fs::read_to_string(repository().join(GLOSSARY)).unwrap();
    let ruled_out = ruled_out(&text);
    assert!(ruled_out.len() > 10, "only {ruled_out:?} are ruled out");
    let files = sources(&["rs", "py", "pyi", "md", "yaml", "yml"]);
    assert!(files.len() > 500, "only {} files found", files.len());
    let rules = |file: &Path| RULES.iter().any(|rule| file.ends_with(rule));
    let texts: Vec<_> = files
        .iter()
        .filter(|file| !rules(file))
        .map(|file| {
            let text = fs::read_to_string(repository().join(file)).unwrap();
            (file, text.to_lowercase())
        })
        .collect();
    for word in &ruled_out {
        let mut lines = Vec::new();
        for (file, text) in &texts {
            for (index, line) in text.lines().enumerate() {
                let count = occurrences(line, word);
                lines.extend((0..count).map(|_| format!("{}:{}", file.display(), index + 1)));
            }
        }
        assert!(
            lines.is_empty(),
            "`{word}`, which {GLOSSARY} rules out:\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn the_last_column_of_each_table_rules_words_out() {
    let page = "| term | meaning | not |\n|---|---|---|\n| a | `kept` | `One`, `two words` |\n| b | c | |\ntext `no`\n";
    assert_eq!(ruled_out(page), ["one", "two words"]);
}

#[test]
fn only_whole_words_count() {
    assert_eq!(
        occurrences("the end, the-end; the\tend; bend the end", "end"),
        3
    );
    assert_eq!(
        occurrences("tetris-reclaimer-core tetris-reclaimer", "tetris-reclaimer"),
        1
    );
}

/// Words in backticks in the last of three columns, in lower case.
fn ruled_out(page: &str) -> Vec<String> {
    let mut words = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        if let [_, _, not] = cells[..] {
            // Every second piece between backticks is inside of them.
            words.extend(not.split('`').skip(1).step_by(2).map(str::to_lowercase));
        }
    }
    words
}

/// Number of places in `line` with `word`, as its own word.
fn occurrences(line: &str, word: &str) -> usize {
    let joins = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    line.match_indices(word)
        .filter(|(at, _)| {
            let before = line[..*at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(joins) && !after.is_some_and(joins)
        })
        .count()
}
