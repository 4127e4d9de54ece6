//! A terminal of 80 columns: help of all programs, and the reports that they print.

use std::path::Path;
use std::process::{Command, Stdio};

use tetris_tests::programs::folder_with;
use tetris_tests::scratch::Scratch;
use tetris_tests::{model, skip};

/// Columns of the terminal.
const COLUMNS: usize = 80;
/// All programs that have a command line for people.
const PROGRAMS: [&str; 6] = [
    "density",
    "tetris",
    "tetris-gateway",
    "tetris-node",
    "tetris-scaler",
    "tetris-webhook",
];

/// The help of a subcommand for a terminal. Without one, clap takes its columns from COLUMNS.
fn help(program: &Path, words: &[String], flag: &str) -> String {
    let output = Command::new(program)
        .args(words)
        .arg(flag)
        .env("COLUMNS", COLUMNS.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Names in the list of subcommands.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let list = rest.lines().take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !["", "help"].contains(name));
    names.map(str::to_owned).collect()
}

/// Faults in a text: lines that a terminal breaks, and lines of a paragraph that end early, since someone broke them for another width.
fn faults(text: &str) -> Vec<String> {
    let width = |line: &str| line.chars().count();
    let wide = text.lines().filter(|line| width(line) > COLUMNS);
    let mut lines: Vec<String> = wide.map(|line| format!("too wide: {line}")).collect();
    let is_prose = |line: &str| {
        let begins = line.chars().next().is_some_and(|c| !c.is_whitespace());
        begins && !line.starts_with("Usage:") && !line.ends_with(':')
    };
    for (line, next) in text.lines().zip(text.lines().skip(1)) {
        let word = next.split(' ').next().unwrap_or_default();
        if is_prose(line) && is_prose(next) && width(line) + 1 + width(word) <= COLUMNS {
            lines.push(format!("ends early: {line}"));
        }
    }
    lines
}

fn check(program: &Path, words: &mut Vec<String>, found: &mut Vec<String>, count: &mut usize) {
    let long = help(program, words, "--help");
    let name = program.file_name().unwrap().display();
    for text in [&long, &help(program, words, "-h")] {
        assert!(text.contains("Usage:"), "{name} {words:?}: {text}");
        let faults = faults(text).into_iter();
        found.extend(faults.map(|fault| format!("{name} {}: {fault}", words.join(" "))));
        *count += 1;
    }
    for subcommand in subcommands(&long) {
        words.push(subcommand);
        check(program, words, found, count);
        words.pop();
    }
}

#[test]
fn help_of_all_programs_fits() {
    let Some(folder) = folder_with(&PROGRAMS) else {
        skip!("the programs are not built: cargo build --workspace --bins");
    };
    let (mut found, mut count) = (Vec::new(), 0);
    for program in PROGRAMS {
        check(
            &folder.join(program),
            &mut Vec::new(),
            &mut found,
            &mut count,
        );
    }
    assert!(count > 80, "only {count} texts");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn lines_that_were_broken_for_another_width_are_found() {
    let long = "word ".repeat(17);
    assert_eq!(faults(long.trim_end()).len(), 1);
    assert_eq!(faults("A line\nthat ends early."), ["ends early: A line"]);
    assert!(faults("Options:\n  --a  One\n  --b  Two\n\nA paragraph.").is_empty());
}

#[test]
fn reports_of_the_command_fit() {
    let Some(folder) = folder_with(&["tetris"]) else {
        skip!("the command is not built: cargo build -p tetris-cli");
    };
    let scratch = Scratch::new().unwrap();
    for name in ["base", "tuned"] {
        model::write(&scratch.model(name), &model::small_specs(1, &[])).unwrap();
    }
    for words in [
        "load base.safetensors tuned.safetensors",
        "load base.safetensors",
        "doctor base.safetensors",
        "stat",
        "ls --objects",
        "ls --identities",
        "top --once",
        "verify",
        "hash base.safetensors",
        "gc --dry-run",
    ] {
        // `doctor` warns of what could be better on this machine by its code 6.
        let codes: &[i32] = if words.starts_with("doctor") {
            &[0, 6]
        } else {
            &[0]
        };
        let output = Command::new(folder.join("tetris"))
            .args(words.split(' '))
            .env("TETRIS_STORE", scratch.root())
            .current_dir(scratch.models())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap();
        assert!(codes.contains(&code), "{words}: {code}: {text}{told}");
        let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{words}");
        assert!(!text.is_empty(), "{words}");
    }
}

#[test]
fn reports_of_plans_fit() {
    let reports = [
        (
            "tetris-scaler",
            "plan --explain -f ../deploy/samples/scaler/gpus.plan.yaml",
        ),
        (
            "tetris-scaler",
            "plan -f ../deploy/samples/scaler/all-minilm-l6-v2.profile.yaml -f ../deploy/samples/scaler/function.yaml \
             -f ../deploy/samples/scaler/plan-nodes.yaml --load minilm=100",
        ),
    ];
    let programs = reports.map(|(program, _)| program);
    let Some(folder) = folder_with(&programs) else {
        skip!("the programs are not built: cargo build --workspace --bins");
    };
    for (program, words) in reports {
        let output = Command::new(folder.join(program))
            .args(words.split_whitespace())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {words}: {told}");
        let wide = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(wide, None, "{program} {words}");
        assert!(text.lines().count() > 5, "{program} {words}: {text}");
    }
}
