//! Workflows of the repository's host call recipes alone, so that everybody can run their jobs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tetris_tests::sources::repository;

fn workflows() -> Vec<PathBuf> {
    let folder = repository().join(".github/workflows");
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// Names of the justfile's recipes: lines that begin with a name and end with a colon.
fn recipes() -> BTreeSet<String> {
    let justfile = fs::read_to_string(repository().join("justfile")).unwrap();
    let heads = justfile.lines().filter(|line| {
        line.starts_with(|first: char| first.is_ascii_lowercase()) && line.trim_end().ends_with(':')
    });
    let names = heads.map(|line| line.split([' ', ':']).next().unwrap().to_owned());
    names.collect()
}

/// Commands of the steps: `run: COMMAND`, which is never a block of several.
fn commands(workflow: &str) -> Vec<&str> {
    let lines = workflow
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    lines
        .filter_map(|line| line.strip_prefix("run: "))
        .collect()
}

#[test]
fn every_job_is_a_recipe() {
    let recipes = recipes();
    assert!(recipes.len() > 15, "{recipes:?}");
    let mut called = BTreeSet::new();
    for path in workflows() {
        let workflow = fs::read_to_string(&path).unwrap();
        for command in commands(&workflow) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let recipe = match words.as_slice() {
                ["just", recipe, ..] => (*recipe).to_owned(),
                _ => panic!(
                    "{}: `{command}` is no recipe of the justfile",
                    path.display()
                ),
            };
            assert!(
                recipes.contains(&recipe),
                "{}: no recipe {recipe}",
                path.display()
            );
            called.insert(recipe);
        }
        assert!(
            !workflow.contains("pull_request_target"),
            "runs a stranger's code with rights"
        );
        assert!(
            workflow.contains("permissions:\n  contents: read\n"),
            "{}",
            path.display()
        );
    }
    for needed in ["check", "test", "test-python", "crates", "wheels", "images"] {
        assert!(called.contains(needed), "no job calls `just {needed}`");
    }
}

#[test]
fn every_job_has_a_limit_of_time() {
    for path in workflows() {
        let workflow = fs::read_to_string(&path).unwrap();
        let count = |part: &str| workflow.matches(part).count();
        assert_eq!(
            count("runs-on:"),
            count("timeout-minutes:"),
            "{}",
            path.display()
        );
    }
}
