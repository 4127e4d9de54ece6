//! The filter of the log.

use super::site::{run, tetris};

#[test]
fn a_filter_that_cannot_be_read_ends_the_command_with_the_reason() {
    for (filter, expected) in [
        ("inof", "did you mean `info`?"),
        ("nonsense=foo", "`foo` in `nonsense=foo` is not a level"),
        ("a=b=c", "`b=c` in `a=b=c` is not a level"),
    ] {
        let option = run(tetris().args(["--log", filter, "stat"])).expect(2);
        assert!(option.stderr.contains(expected), "{option:?}");
        let named = format!("error: --log: cannot read the log filter `{filter}`");
        assert!(option.stderr.contains(&named), "{option:?}");
        for variable in ["TETRIS_LOG", "RUST_LOG"] {
            let of_variable = run(tetris().env(variable, filter).arg("stat")).expect(2);
            let named = format!("error: {variable}: cannot read the log filter `{filter}`");
            assert!(of_variable.stderr.contains(&named), "{of_variable:?}");
        }
    }
}

#[test]
fn exec_runs_its_program_whatever_the_filter() {
    let mut command = tetris();
    command.env("RUST_LOG", "app/regex");
    let ran = run(command.args(["--store", "/nowhere", "exec", "--", "echo", "ran"])).expect(0);
    assert_eq!(ran.stdout, "ran\n");
    assert!(
        ran.stderr
            .contains("warning: RUST_LOG: cannot read the log filter `app/regex`"),
        "{ran:?}"
    );
}

#[test]
fn an_error_is_the_json_document_where_json_is_asked_for() {
    let command = ["--store", "/nowhere", "--format", "json", "stat"];
    let failed = run(tetris().args(command)).expect(3);
    let document = failed.json();
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["error"]["code"], "no-store");
    assert_eq!(document["error"]["exit_code"], 3);
    let message = document["error"]["message"].as_str().unwrap();
    assert!(failed.stderr.contains(message), "{failed:?}");
}
