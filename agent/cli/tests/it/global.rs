//! Common behavior of all subcommands: options, exit codes, output.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::site::{Run, Site, run, tetris};

#[test]
fn options_are_accepted_before_and_after_the_subcommand_and_from_the_environment() {
    let site = Site::new();
    let store = site.store_dir();
    let id = site.fixture.store().id().to_string();
    let mut before = tetris();
    before
        .arg("--store")
        .arg(store)
        .args(["--format", "json", "stat"]);
    let mut after = tetris();
    after
        .arg("stat")
        .arg("--store")
        .arg(store)
        .args(["--format=json"]);
    let mut by_env = tetris();
    by_env
        .env("TETRIS_STORE", store)
        .args(["stat", "--format", "json"]);
    let mut over_env = tetris();
    over_env
        .env("TETRIS_STORE", "/nowhere")
        .arg("--store")
        .arg(store);
    over_env.args(["stat", "--format", "json"]);
    for command in [&mut before, &mut after, &mut by_env, &mut over_env] {
        assert_eq!(run(command).expect(0).json()["id"], id.as_str());
    }
}

#[test]
fn the_page_of_exit_codes_has_every_code() {
    let help = run(tetris().arg("--help")).expect(0).stdout;
    tetris_test_support::exit_codes_page::check("tetris", &help);
}

#[test]
fn the_page_of_the_command_has_its_help() {
    tetris_test_support::command_page::check("tetris", |words| {
        run(tetris().args(words).arg("--help")).expect(0).stdout
    });
}

#[test]
fn manual_pages_are_written_for_the_command_and_each_subcommand() {
    let site = Site::new();
    let folder = site.fixture.dir().join("manual");
    run(tetris().arg("man").arg(&folder)).expect(0);
    let help = run(tetris().arg("--help")).expect(0).stdout;
    let pages: Vec<String> = subcommands(&help)
        .iter()
        .map(|verb| format!("tetris-{verb}.1"))
        .chain(["tetris.1".to_owned()])
        .collect();
    for page in &pages {
        let text = fs::read_to_string(folder.join(page)).expect(page);
        assert!(text.contains(".TH") && text.contains(".SH NAME"), "{page}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), pages.len());
    run(tetris().args(["man", "/proc/nowhere"])).expect(1);
}

#[test]
fn shells_complete_subcommands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(tetris().args(["completions", shell])).expect(0).stdout;
        for word in ["similarity", "dry-run", "older-than"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    run(tetris().args(["completions", "cmd.exe"])).expect(2);
}

#[test]
fn help_documents_subcommands_options_and_exit_codes() {
    let help = run(tetris().arg("--help")).expect(0).stdout;
    let verbs = subcommands(&help);
    assert!(verbs.len() > 10, "{verbs:?}");
    for verb in verbs {
        let page = run(tetris().args([verb, "--help"])).expect(0).stdout;
        assert!(
            page.contains("Usage: tetris") && page.contains("--store"),
            "{verb}"
        );
        assert!(
            page.is_ascii() && page.lines().all(|line| line.len() <= 100),
            "{verb}"
        );
    }
    assert!(help.contains("Exit codes:") && help.contains("TETRIS_STORE"));
    assert!(!help.contains("__hold"), "hidden");
    run(tetris().arg("--version")).expect(0);
}

/// Names of the subcommands in the help of the command.
fn subcommands(help: &str) -> Vec<&str> {
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let list = rest.lines().take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !["", "help"].contains(name)).collect()
}

#[test]
fn every_subcommand_has_a_test_and_an_entry_in_the_changelog() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = String::new();
    for file in fs::read_dir(root.join("tests/it")).unwrap() {
        tests += &fs::read_to_string(file.unwrap().path()).unwrap();
    }
    let changelog = fs::read_to_string(root.join("../../CHANGELOG.md")).unwrap();
    let help = run(tetris().arg("--help")).expect(0).stdout;
    for verb in subcommands(&help) {
        let quoted = format!("\"{verb}\"");
        assert!(
            tests.contains(&quoted),
            "no test in agent/cli/tests/it runs `tetris {verb}`"
        );
        let forms = [format!("`{verb}`"), format!("`tetris {verb}")];
        let is_named = forms.iter().any(|form| changelog.contains(form));
        assert!(is_named, "CHANGELOG.md has no entry for `tetris {verb}`");
    }
}

#[test]
fn a_wrong_command_line_is_code_2() {
    let wrong: [&[&str]; 10] = [
        &[],
        &["frobnicate"],
        &["load"],
        &["doctor", "--pid", "0"],
        &["ls", "--objects", "--derived"],
        &["gc", "--older-than", "soon"],
        &["gc", "--free", "8GB"],
        &["init", "--size", "0"],
        &["exec", "--model", "m"],
        &["stat", "--format", "xml"],
    ];
    for args in wrong {
        let run = run(tetris().args(args)).expect(2);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn without_a_usable_store_it_is_code_3_and_says_what_to_do() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let missing = site.dir().join("missing");
    for args in [
        vec!["stat"],
        vec!["ls"],
        vec!["verify"],
        vec!["gc"],
        vec!["show", "abcd"],
        vec!["load", model.to_str().unwrap()],
    ] {
        let run = run(tetris().arg("--store").arg(&missing).args(args)).expect(3);
        assert!(
            run.stderr.contains("missing") && run.stderr.contains("tetris init"),
            "{run:?}"
        );
        assert!(run.stdout.is_empty());
    }
    let no_store = run(tetris().arg("--store").arg(site.dir()).arg("stat")).expect(3);
    assert!(
        no_store.stderr.contains("not a tensor store"),
        "{no_store:?}"
    );
}

#[test]
fn a_store_of_another_version_or_with_a_damaged_header_is_code_3() {
    for (offset, found) in [(8, "version 2"), (20, "damaged")] {
        let site = Site::new();
        let header = site.store_dir().join("store");
        let mut bytes = fs::read(&header).unwrap();
        bytes[offset] = if offset == 8 { 2 } else { bytes[offset] ^ 1 };
        fs::remove_file(&header).unwrap();
        fs::write(&header, bytes).unwrap();
        let run = site.run(&["stat"]).expect(3);
        assert!(run.stderr.contains(found), "{run:?}");
    }
}

#[test]
fn a_missing_or_invalid_model_is_code_4_and_the_others_are_done() {
    let site = Site::new();
    let good = site.fixture.model("good.safetensors", 1);
    let bad = site.dir().join("bad.safetensors");
    fs::write(&bad, b"not a model").unwrap();
    let missing = site.dir().join("missing.safetensors");
    for verb in ["load", "hash"] {
        for wrong in [&bad, &missing] {
            let args = [verb.as_ref(), wrong.as_os_str(), good.as_os_str()];
            let run = site.run(&args).expect(4);
            assert!(run.stderr.contains(wrong.to_str().unwrap()), "{run:?}");
            assert!(run.stdout.contains("good.safetensors"), "{run:?}");
            let args = [&args[..], &["--format".as_ref(), "json".as_ref()]].concat();
            let errors = site.run(&args).expect(4).json()["errors"].clone();
            assert_eq!(errors.as_array().unwrap().len(), 1, "{errors}");
            assert_eq!(errors[0]["model"], wrong.to_str().unwrap());
            assert_eq!(
                (&errors[0]["code"], &errors[0]["exit_code"]),
                (&"model".into(), &4.into())
            );
        }
    }
    site.run(&["show", "no such thing"]).expect(4);
    site.run(&["similarity", "no such thing", "abcd"]).expect(4);
}

#[test]
fn what_cannot_be_printed_is_an_error_and_a_closed_pipe_is_none() {
    let site = Site::new();
    site.load(&site.fixture.model("m.safetensors", 1));
    for args in [
        vec!["ls"],
        vec!["ls", "--objects"],
        vec!["stat"],
        vec!["verify"],
        vec!["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = site
            .command(&args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn();
        let run = Run::of(&child.unwrap().wait_with_output().unwrap()).expect(0);
        // The store lies where pages may be small, and other tests may hold very many locks.
        let mut lines = run.stderr.lines();
        let warnings = [
            "warning: models have 4 KiB pages",
            "warning: the machine has more than 40000 locks",
        ];
        let warned = |line: &str| warnings.iter().any(|warning| line.starts_with(warning));
        assert!(lines.all(warned), "{args:?}: {}", run.stderr);
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let child = site
        .command(&["ls"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn();
    let run = Run::of(&child.unwrap().wait_with_output().unwrap()).expect(1);
    assert!(run.stderr.contains("stdout"), "{run:?}");
}

#[test]
fn colors_and_progress_are_for_terminals() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let args = ["load".as_ref(), model.as_os_str()];
    let run = site.run(&args).expect(0);
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\x1b'));
    let forced = crate::site::run(site.command(&args).env("CLICOLOR_FORCE", "1")).expect(0);
    assert!(forced.stdout.contains('\x1b'));
}
