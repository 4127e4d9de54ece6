//! The command itself, as a process.

use std::process::{self, Output};

use clap::Parser as _;
use tetris_scaler::cli::{Cli, Command};

use crate::exit_codes_page;

fn run(args: &[&str]) -> Output {
    let mut command = process::Command::new(env!("CARGO_BIN_EXE_tetris-scaler"));
    for name in ["TETRIS_LOG", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.args(args).output().unwrap()
}

#[test]
fn the_page_of_exit_codes_has_every_code() {
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    exit_codes_page::check("tetris-scaler", &help);
}

/// `plan` logs nothing, and takes no wrong filter either.
#[test]
fn a_log_filter_that_cannot_be_read_is_an_error_that_names_its_origin() {
    for command in [&["crds"][..], &["plan", "-f", "/nowhere"]] {
        let output = run(&[command, &["--log", "nonsense=foo"]].concat());
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8(output.stderr).unwrap();
        let expected = "error: --log: cannot read the log filter `nonsense=foo`";
        assert!(told.starts_with(expected), "{told}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn times_are_plain_seconds_or_have_a_unit() {
    for (text, expected) in [
        ("11m", "expected 1 to 600 seconds, found `11m`"),
        ("soon", "expected a time such as 90s"),
    ] {
        let output = run(&["run", "--interval-seconds", text]);
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{told}");
    }
    let parsed = Cli::try_parse_from(["tetris-scaler", "run", "--interval-seconds", "2m"]);
    let Command::Run(args) = parsed.unwrap().command else {
        panic!("another command");
    };
    assert_eq!((args.interval_seconds, args.poll_seconds), (120, 10));
}
