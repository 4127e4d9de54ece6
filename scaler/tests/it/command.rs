//! The command itself, as a process.

use std::process::{self, Output};

use clap::Parser as _;
use tetris_scaler::cli::{Cli, Command};
use tetris_scaler::resources::InferenceFunctionSpec;
use tetris_scaler_core::{OperatorDefaults, ScaleInConfig};

use tetris_test_support::{command_page, exit_codes_page};

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

#[test]
fn the_page_of_the_command_has_its_help() {
    command_page::check("tetris-scaler", |words| {
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_tetris-scaler"));
        let output = command.env_clear().args(words).arg("--help").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    });
}

#[test]
fn manual_pages_are_written_for_the_command_and_each_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["man", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for page in [
        "tetris-scaler.1",
        "tetris-scaler-run.1",
        "tetris-scaler-plan.1",
    ] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn the_option_of_a_collector_goes_before_its_variables() {
    const OPTION: &str = "--otlp-endpoint=ftp://option";
    const OF_TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://traces");
    const OF_ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://all");
    for (options, variables, expected) in [
        (&[OPTION][..], &[OF_TRACES, OF_ALL][..], "ftp://option"),
        (&[], &[OF_TRACES, OF_ALL], "ftp://traces"),
        (&[], &[OF_ALL], "ftp://all"),
        (&[], &[(OF_TRACES.0, ""), OF_ALL], "ftp://all"),
    ] {
        let mut command = process::Command::new(env!("CARGO_BIN_EXE_tetris-scaler"));
        command.env_clear().arg("run").args(options);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    }
}

#[test]
fn shells_complete_subcommands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["open-gates", "prometheus-url"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
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

#[test]
fn the_defaults_are_those_of_the_core_which_the_simulator_takes_too() {
    let parsed = Cli::try_parse_from(["tetris-scaler", "run"]);
    let Command::Run(args) = parsed.unwrap().command else {
        panic!("another command");
    };
    let function: InferenceFunctionSpec = serde_json::from_value(serde_json::json!({
        "profile": "m", "slo": { "latencyMillis": 100 }, "load": { "prometheus": { "query": "q" } }, "template": {},
    }))
    .unwrap();
    let scale_in = function.scale_in;
    let defaults = OperatorDefaults {
        interval_seconds: args.interval_seconds,
        window_seconds: scale_in.window_seconds,
        consolidate_after_seconds: args.consolidate_after_seconds,
        alpha_bytes_per_millicore: function.alpha_bytes_per_millicore,
        scale_in: ScaleInConfig {
            keep_percent: scale_in.keep_percent,
            scale_out_percent: scale_in.scale_out_percent,
            max_releases: scale_in.max_releases,
            ..ScaleInConfig::default()
        },
    };
    assert_eq!(defaults, OperatorDefaults::default());
}
