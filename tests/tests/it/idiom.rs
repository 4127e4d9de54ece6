//! Phrases and names that a native engineer would not write, counted. Ceilings only fall.

use std::fs;

use tetris_tests::sources::{repository, sources};

/// Phrases of comments in Rust, as words in lower case, and the number of their occurrences.
const PHRASES: [(&[&str], usize); 15] = [
    (&["that", "is"], 440),
    (&["that", "are"], 360),
    (&["that", "was"], 110),
    (&["that", "were"], 100),
    (&["in", "which"], 125),
    (&["of", "which"], 115),
    (&["to", "which"], 30),
    (&["of", "its", "own"], 4),
    (&["of", "their", "own"], 0),
    (&["nobody"], 0),
    (&["somebody"], 0),
    (&["says"], 9),
    (&["tells"], 5),
    (&["told"], 3),
    (&["anew"], 51),
];

/// Phrases of pages, as words in lower case, and the number of their occurrences. Code does not count.
const PAGE_PHRASES: [(&[&str], usize); 8] = [
    (&["what", "is"], 57),
    (&["what", "it"], 32),
    (&["what", "was"], 19),
    // STYLE.md names it.
    (&["nobody"], 1),
    (&["somebody"], 0),
    (&["everybody"], 0),
    (&["anybody"], 0),
    (&["anew"], 2),
];

/// Names of closures' arguments that say nothing, in code in Rust.
const NAMES: [(&str, usize); 1] = [("|one|", 0)];

/// Names of bindings that say nothing, and the number of their `let`. What is compared with an `expected` value is
/// `found`, as in errors.
const BINDINGS: [(&str, usize); 5] = [
    ("each", 0),
    ("found", 124),
    ("held", 0),
    ("one", 0),
    ("own", 0),
];

/// Words of a file's comments, in lower case; code in backquotes counts as one word.
fn words(text: &str) -> Vec<String> {
    let comments = text.lines().filter_map(|line| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.trim_start_matches(['/', '!']))
    });
    let comments: Vec<_> = comments.collect();
    plain_words(&comments.join(" "))
}

/// Words of a page, as those of comments; blocks of code do not count.
fn page_words(text: &str) -> Vec<String> {
    let without_blocks: Vec<_> = text.split("```").step_by(2).collect();
    plain_words(&without_blocks.join(" code "))
}

fn plain_words(prose: &str) -> Vec<String> {
    let without_code: Vec<_> = prose.split('`').step_by(2).collect();
    without_code
        .join(" code ")
        .split(|c: char| !c.is_alphabetic() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Number of `let` that bind `name` alone.
fn bindings(text: &str, name: &str) -> usize {
    let after = [" ", ":", ";"].map(|end| format!("{name}{end}"));
    let starts = text.split("let ").skip(1);
    starts
        .map(|rest| rest.strip_prefix("mut ").unwrap_or(rest))
        .filter(|rest| after.iter().any(|name| rest.starts_with(&**name)))
        .count()
}

fn count(words: &[String], phrase: &[&str]) -> usize {
    let windows = words.windows(phrase.len());
    windows.filter(|window| *window == phrase).count()
}

#[test]
fn phrases_of_pages_stay_below_their_ceilings() {
    let pages = sources(&["md"]);
    let texts = pages
        .iter()
        .map(|page| page_words(&fs::read_to_string(repository().join(page)).unwrap()));
    let texts: Vec<_> = texts.collect();
    for (phrase, ceiling) in PAGE_PHRASES {
        let number: usize = texts.iter().map(|words| count(words, phrase)).sum();
        let phrase = phrase.join(" ");
        assert!(
            number <= ceiling,
            "`{phrase}`: {number}, expected {ceiling} at most"
        );
    }
}

#[test]
fn phrases_and_names_stay_below_their_ceilings() {
    let files = sources(&["rs"]);
    let texts = files.iter().map(|file| {
        // The file that names them.
        let is_this = file.ends_with("idiom.rs");
        let text = fs::read_to_string(repository().join(file)).unwrap();
        if is_this { String::new() } else { text }
    });
    let texts: Vec<_> = texts.collect();
    let comments: Vec<_> = texts.iter().map(|text| words(text)).collect();
    let mut above = Vec::new();
    for (phrase, ceiling) in PHRASES {
        let number: usize = comments.iter().map(|words| count(words, phrase)).sum();
        if number > ceiling {
            above.push(format!(
                "`{}`: {number}, expected {ceiling} at most",
                phrase.join(" ")
            ));
        }
    }
    for (name, ceiling) in NAMES {
        let number: usize = texts.iter().map(|text| text.matches(name).count()).sum();
        if number > ceiling {
            above.push(format!("`{name}`: {number}, expected {ceiling} at most"));
        }
    }
    for (name, ceiling) in BINDINGS {
        let number: usize = texts.iter().map(|text| bindings(text, name)).sum();
        if number > ceiling {
            above.push(format!(
                "`let {name}`: {number}, expected {ceiling} at most"
            ));
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
}

#[test]
fn only_prose_counts() {
    let text = "/// A file that is read, of `that is` and\n//! of its own.\nlet that = is;\n";
    let words = words(text);
    assert_eq!(count(&words, &["that", "is"]), 1);
    assert_eq!(count(&words, &["of", "its", "own"]), 1);
}

#[test]
fn bindings_count_by_their_whole_name() {
    let text = "let found = 1; let mut found: u8 = 2; let found_at = 3; if let Some(found) = x {}";
    assert_eq!(bindings(text, "found"), 2);
}
