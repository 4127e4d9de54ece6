//! The page of a program in docs/reference, which is written from its help and that of its subcommands.

use std::fmt::Write as _;
use std::path::Path;

/// Compares docs/reference/`program`.md with the texts that `help` returns for the words before `--help`. With
/// UPDATE_GOLDEN it writes the page.
pub fn check(program: &str, help: impl Fn(&[String]) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("docs/reference"))
        .find(|folder| folder.is_dir())
        .expect("docs/reference")
        .join(format!("{program}.md"));
    let mut expected = format!(
        "# {program}\n\n<!-- Written from its help by its tests with UPDATE_GOLDEN=1 -->\n"
    );
    describe(&mut vec![], program, &help, &mut expected);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        page, expected,
        "docs/reference/{program}.md differs from the help; UPDATE_GOLDEN=1 writes it"
    );
}

/// Adds the help of the subcommand `words`, and of those below it.
fn describe(
    words: &mut Vec<String>,
    program: &str,
    help: &impl Fn(&[String]) -> String,
    page: &mut String,
) {
    let text = help(words);
    assert!(text.contains("Usage:"), "{words:?}: {text}");
    if !words.is_empty() {
        write!(page, "\n## {program} {}\n", words.join(" ")).unwrap();
    }
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n```text\n{}\n```\n", lines.join("\n")).unwrap();
    for name in subcommands(&text) {
        words.push(name);
        describe(words, program, help, page);
        words.pop();
    }
}

/// Names in the list of subcommands.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("Commands:\n") else {
        return vec![];
    };
    let list = rest.lines().take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !["", "help"].contains(name));
    names.map(str::to_owned).collect()
}
