//! Errors, limits and hostile bytes.

use std::path::Path;

use proptest::prelude::*;
use tetris_simulation::traces::{Limits, RecordedTrace, TraceError, Window};

use super::{made, read_text};

const HEADER_2019: &str = "HashOwner,HashApp,HashFunction,Trigger,1,2";
const HEADER_2021: &str = "app,func,end_timestamp,duration";
const HEADER_BURSTGPT: &str =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";

fn message(error: &TraceError) -> String {
    error.to_string()
}

fn error(text: &str) -> String {
    message(&read_text(text, &Limits::default()).unwrap_err())
}

#[test]
fn an_unknown_header_is_shown_with_the_three_that_are_read() {
    for (text, start) in [
        ("time,model\n1,2\n", "time,model"),
        ("", ""),
        ("\u{1}\n", "\\x01"),
    ] {
        let message = error(text);
        let expected = [
            "made.csv",
            &format!("found `{start}`"),
            "HashOwner,HashApp,HashFunction,Trigger,1,2,...,1440",
            HEADER_2021,
            HEADER_BURSTGPT,
        ];
        for part in expected {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn a_wrong_row_is_named_with_its_line_and_value() {
    for (header, row, found, expected) in [
        (
            HEADER_2019,
            "o,a,f,http,1,x",
            "`x` in column 6",
            "number of requests",
        ),
        (
            HEADER_2019,
            "o,a,f,http,1,-1",
            "`-1` in column 6",
            "number of requests",
        ),
        (
            HEADER_2019,
            "o,a,f,http,1,NaN",
            "`NaN` in column 6",
            "number of requests",
        ),
        (
            HEADER_2019,
            "o,a,f,http,4294967296,1",
            "`4294967296` in column 5",
            "below 4,294,967,296",
        ),
        (HEADER_2019, "o,a,f,http,1", "5 columns", "6 columns"),
        (HEADER_2019, "o,a,,http,1,1", "`` in column 3", "identifier"),
        (
            HEADER_2021,
            "a,f,NaN,1",
            "`NaN` in column 3",
            "end_timestamp in seconds",
        ),
        (
            HEADER_2021,
            "a,f,1,inf",
            "`inf` in column 4",
            "duration in seconds",
        ),
        (
            HEADER_2021,
            "a,f,-1,1",
            "`-1` in column 3",
            "end_timestamp in seconds",
        ),
        (HEADER_2021, "a,f,1,1,1", "5 columns", "4 columns"),
        (
            HEADER_BURSTGPT,
            "1e99,m,1,1,2,l",
            "`1e99` in column 1",
            "timestamp in seconds",
        ),
        (
            HEADER_BURSTGPT,
            ",m,1,1,2,l",
            "`` in column 1",
            "timestamp in seconds",
        ),
    ] {
        let good = match header {
            HEADER_2019 => "o,a,g,http,1,1",
            HEADER_2021 => "a,g,70,1",
            _ => "70,n,1,1,2,l",
        };
        for end in ["\n", "\r\n"] {
            let message = error(&[header, good, row, good].join(end));
            for part in ["made.csv, line 3: ", found, expected, "repair or remove"] {
                assert!(message.contains(part), "{message}");
            }
        }
    }
}

#[test]
fn limits_end_the_reading() {
    let limits = Limits {
        row_bytes: 100,
        id_bytes: 3,
        functions: 2,
        entries: 3,
        requests: 10,
    };
    let error = |header: &str, rows: &str| {
        message(&read_text(format!("{header}\n{rows}\n"), &limits).unwrap_err())
    };
    for (rows, expected) in [
        (
            "o,a,f,t,1,1\no,a,g,t,1,1\no,a,h,t,1,1",
            "line 4: expected at most 2 functions",
        ),
        (
            "o,a,f,t,5,0\no,a,f,t,6,0",
            "line 3: expected at most 10 requests",
        ),
        ("o,a,long,t,1,1", "an identifier in UTF-8 of 1 to 3 bytes"),
    ] {
        let message = error(HEADER_2019, rows);
        assert!(message.contains(expected), "{message}");
    }
    let message = error(HEADER_2021, &"a,f,1,0\n".repeat(4));
    assert!(
        message.contains("at most 3 requests, or minutes"),
        "{message}"
    );
    // A row that does not end, and one in quotes with all that follows.
    for start in ["", "\""] {
        let row = format!("{start}{}", "a".repeat(1 << 20));
        let message = error(HEADER_2021, &row);
        assert!(
            message.contains("line 2: expected a row of at most 100 bytes"),
            "{message}"
        );
    }
}

#[test]
fn a_window_beyond_the_file_names_the_files_minutes() {
    let error = |name: &str, start, seconds| {
        let window = Window::new(start, seconds);
        let read = RecordedTrace::read(&made(name), window, &Limits::default());
        message(&read.unwrap_err())
    };
    let beyond = error("azure-functions-2019.csv", 5, 600);
    assert!(beyond.contains("minutes 5 to 15 of"), "{beyond}");
    assert!(
        beyond.contains("its minutes 0 to 10; change --trace-start"),
        "{beyond}"
    );
    let newer = error("burstgpt-newer.csv", 0, 60_000_000);
    assert!(newer.contains("its minutes 324002 to 324007"), "{newer}");
    let missing = error("missing.csv", 0, 60);
    assert!(missing.contains("missing.csv"), "{missing}");
}

#[test]
fn blank_lines_and_a_mark_of_utf_8_are_ignored() {
    let text = format!("\u{feff}{HEADER_2021}\r\n\r\na,f,60,1\r\n\r\n");
    let trace = read_text(text, &Limits::default()).unwrap();
    assert_eq!(trace.functions()[0].requests(), 1);
    let message = error(&format!("{HEADER_2021}\n\n\na,f,60,1\na,f,x,1"));
    assert!(message.contains("line 5: "), "{message}");
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(
        header in prop::sample::select(vec!["", HEADER_2019, HEADER_2021, HEADER_BURSTGPT]),
        bytes in prop::collection::vec(prop_oneof![
            any::<u8>(),
            prop::sample::select(b"0123456789.,,,,\n\n\"-eafo".to_vec()),
        ], 0..400),
    ) {
        let text = [header.as_bytes(), b"\n", &bytes].concat();
        let window = Window::new(0, 60);
        let read = RecordedTrace::read_from(Path::new("x"), &*text, window, &Limits::default());
        if let Err(error) = read {
            prop_assert!(!message(&error).is_empty());
        }
    }
}
