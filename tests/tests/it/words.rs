//! Openings of doc comments that STYLE.md rules out. None is left.

use std::fs;

use tetris_tests::sources::{repository, sources};

/// First words that make a comment begin with a clause in place of a noun or a verb.
const RULED_OUT: [&str; 13] = [
    "What", "How", "Whether", "Which", "Who", "Whom", "Whose", "Whoever", "Whatever", "Why",
    "Where", "When", "So",
];

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let files = sources(&["rs", "py"]);
    assert!(files.len() > 500, "only {} sources found", files.len());
    let mut lines = Vec::new();
    for file in &files {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        let python = file.extension().is_some_and(|extension| extension == "py");
        let openings = openings(&text, python);
        lines.extend(
            openings
                .into_iter()
                .map(|line| format!("{}:{line}", file.display())),
        );
    }
    assert!(
        lines.is_empty(),
        "{} doc comments begin with a word that STYLE.md rules out:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn only_the_first_line_of_a_comment_counts() {
    let rust = "//! What is here.\n//! How it works.\n\n/// Number of bytes.\n/// When full, 0.\nfn a() {}\n    /// So many.\n    /// More.\n";
    assert_eq!(openings(rust, false), [1, 7]);
    let python =
        "\"\"\"Which files.\n\nWhat else.\n\"\"\"\ndef a():\n    \"\"\"Returns it.\"\"\"\n";
    assert_eq!(openings(python, true), [1]);
}

/// Numbers of the lines that open a doc comment with a word that is ruled out.
fn openings(text: &str, python: bool) -> Vec<usize> {
    let mut openings = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = if python {
            line.strip_prefix("\"\"\"")
        } else {
            let comment = ["///", "//!"]
                .into_iter()
                .find_map(|mark| line.strip_prefix(mark));
            // Only the first line of a run of comments opens it.
            let opens = !inside;
            inside = comment.is_some();
            comment.filter(|_| opens)
        };
        let first = comment.and_then(|comment| comment.split_whitespace().next());
        let first = first.map(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric()));
        if first.is_some_and(|word| RULED_OUT.contains(&word)) {
            openings.push(index + 1);
        }
    }
    openings
}
