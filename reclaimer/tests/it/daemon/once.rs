//! One pass, and the check of a configuration.

use serde_json::Value;

use crate::daemon::harness::{Place, command};

const EXPIRE_AT_ONCE: &str =
    "[policy.store]\nkeep_alive_secs = 0\nexpiry = \"fixed\"\nexpire_after_secs = 0\n";

#[test]
fn one_pass_frees_and_says_so() {
    let place = Place::new();
    let store = place.store();
    let config = place.config(EXPIRE_AT_ONCE);
    let loaded = place.load(50_000, 1);
    drop(place.load(60_000, 2));
    let dry = command(&["once", "--dry-run", "--format", "json"], &config);
    assert!(dry.status.success(), "{dry:?}");
    let dry = one_document(&dry.stdout);
    assert_eq!(dry["dry_run"], true);
    assert_eq!(
        dry["passes"][0]["freed"]["keep-alive-expired"]["objects"],
        1
    );
    assert_eq!(store.objects().unwrap().objects.len(), 2);
    let text = command(&["once"], &config);
    assert!(text.status.success(), "{text:?}");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("freed                 1 objects            61440 bytes  keep-alive-expired"),
        "{text}"
    );
    assert!(
        text.contains("held                  1 objects            53248 bytes"),
        "{text}"
    );
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    drop(loaded);
}

#[test]
fn a_pass_that_is_not_complete_fails() {
    let place = Place::new();
    let config = place.config("");
    let output = command(&["once"], &config);
    assert_eq!(output.status.code(), Some(5));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("store cannot be used"), "{told}");
    let json = command(&["once", "--format", "json"], &config);
    assert_eq!(json.status.code(), Some(5));
    assert_eq!(one_document(&json.stdout)["errors"][0]["class"], "store");
}

/// The one line of JSON.
fn one_document(stdout: &[u8]) -> Value {
    let text = std::str::from_utf8(stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    let document: Value = serde_json::from_str(text).unwrap();
    tetris_test_support::json_schema::assert_fits(&document);
    document
}

#[test]
fn a_configuration_that_is_checked_is_printed_in_the_form_that_it_is_taken_in() {
    let place = Place::new();
    let text = "interval_secs = \"7s\"\n[policy.store]\nlimit_bytes = \"8GiB\"\n";
    let good = command(&["check"], &place.config(text));
    assert!(good.status.success(), "{good:?}");
    let told = String::from_utf8(good.stderr).unwrap();
    assert!(told.contains("is valid: 1 stores"), "{told}");
    let printed = String::from_utf8(good.stdout).unwrap();
    assert!(printed.contains("interval_secs = \"7s\""), "{printed}");
    assert!(printed.contains("limit_bytes = \"8GiB\""), "{printed}");
    assert!(printed.contains("high_watermark_percent = 95"), "{printed}");
    let again = place.path("again.toml");
    std::fs::write(&again, &printed).unwrap();
    let again = command(&["check"], &again);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(String::from_utf8(again.stdout).unwrap(), printed);
    let json = command(&["check", "--format", "json"], &place.config(text));
    let json = one_document(&json.stdout);
    assert_eq!(json["valid"], true);
    assert_eq!(
        json["configuration"]["policy"]["store"]["limit_bytes"],
        "8GiB"
    );
}

#[test]
fn the_page_of_exit_codes_has_every_code() {
    let help = std::process::Command::new(crate::daemon::harness::EXE)
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    tetris_test_support::exit_codes_page::check("tetris-node", &help);
}

#[test]
fn the_page_of_the_command_has_its_help() {
    tetris_test_support::command_page::check("tetris-node", |words| {
        let mut command = std::process::Command::new(crate::daemon::harness::EXE);
        let output = command.env_clear().args(words).arg("--help").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    });
}

#[test]
fn manual_pages_are_written_for_the_command_and_each_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(crate::daemon::harness::EXE);
    let output = command.arg("man").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in ["tetris-node.1", "tetris-node-run.1", "tetris-node-once.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn shells_complete_subcommands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = std::process::Command::new(crate::daemon::harness::EXE);
        let script = command.args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(
            script.contains("once") && script.contains("memory-limit"),
            "{script}"
        );
    }
}

#[test]
fn all_mistakes_of_a_configuration_are_told_at_once() {
    let place = Place::new();
    let config = place.config("interval_secs = 0\nnoed = \"n\"\n[scrub]\ndepth = \"crx\"\n");
    let bad = command(&["check"], &config);
    assert_eq!(bad.status.code(), Some(3));
    assert!(bad.stdout.is_empty());
    let told = String::from_utf8(bad.stderr).unwrap();
    let at = config.display();
    for expected in [
        format!(
            "configuration `{at}`, line 1, field `interval_secs`: expected 1 to 86400, found 0"
        ),
        format!(
            "configuration `{at}`, line 2, field `noed`: unknown field `noed`; did you mean `node`?"
        ),
        format!(
            "configuration `{at}`, line 4, field `scrub.depth`: unknown variant `crx`; did you mean `crc`?"
        ),
    ] {
        assert!(told.contains(&expected), "{told}\n{expected}");
    }
    let json = command(&["check", "--format", "json"], &config);
    assert_eq!(json.status.code(), Some(3));
    let error = &one_document(&json.stdout)["error"];
    assert_eq!(error["code"], "configuration");
    assert_eq!(error["exit_code"], 3);
    assert_eq!(error["mistakes"].as_array().unwrap().len(), 3);
    assert_eq!(error["mistakes"][1]["line"], 2);
    assert_eq!(error["mistakes"][1]["field"], "noed");
}
