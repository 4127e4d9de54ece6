//! Headers written to break a reader, and random damage to valid ones.

use std::fmt::Write;

use proptest::prelude::*;
use tetris_loader::header::{
    Dtype, Header, HeaderProblem, MAX_HEADER_LEN, MAX_METADATA_ENTRIES, MAX_NAME_LEN, MAX_RANK,
    MAX_TENSORS,
};

use tetris_fuzz_checks::safetensors_header;

/// A header of `json` with the right length in front.
fn with_length(json: &[u8]) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json);
    bytes
}

/// The problem with `json` in a file with `data_len` bytes of data. Also holds it against the reference.
fn problem(json: &str, data_len: u64) -> HeaderProblem {
    let bytes = with_length(json.as_bytes());
    let _ = safetensors_header::check(&bytes);
    let file_len = data_len.saturating_add(bytes.len() as u64);
    let problem = Header::parse(&bytes, file_len).expect_err(json);
    let text = problem.to_string();
    let first = text.chars().next().unwrap();
    assert!(!first.is_uppercase() && !text.ends_with('.'), "{text}");
    problem
}

/// One entry: `"name":{"dtype":...,"shape":...,"data_offsets":...}`.
fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

fn header_of(entries: &[String]) -> String {
    format!("{{{}}}", entries.join(","))
}

/// Asserts that `json` is refused inside `entry` by the JSON reader, in words that contain `says`.
#[track_caller]
fn refused_as_json(json: &str, entry: Option<&str>, says: &str) {
    let problem_of = problem(json, 0);
    let HeaderProblem::Json { entry: place, .. } = &problem_of else {
        panic!("{json}: {problem_of:?}");
    };
    assert_eq!(place.as_deref(), entry, "{json}");
    let text = problem_of.to_string();
    assert!(text.contains(says), "{json}: {text}");
    assert!(entry.is_none_or(|name| text.contains(name)), "{text}");
}

/// Asserts that `json` is refused for exactly `expected`, in words that contain all of `says`.
#[track_caller]
fn refused(json: &str, data_len: u64, expected: &HeaderProblem, says: &[&str]) {
    let found = problem(json, data_len);
    assert_eq!(&found, expected, "{json}");
    let text = found.to_string();
    for part in says {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let parse = |length: u64, file_len: u64| {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"{}");
        Header::parse(&bytes, file_len).expect_err("a wrong length")
    };
    for found in [u64::MAX, u64::MAX - 7, 1 << 63, MAX_HEADER_LEN + 1] {
        let problem = parse(found, u64::MAX);
        let limit = MAX_HEADER_LEN;
        assert_eq!(problem, HeaderProblem::TooLarge { found, limit });
        assert!(problem.to_string().contains(&found.to_string()));
    }
    for (header, file) in [(3, 10), (MAX_HEADER_LEN, 10), (2, 9), (2, 0)] {
        let problem = parse(header, file);
        assert_eq!(problem, HeaderProblem::LengthBeyondFile { header, file });
        let text = problem.to_string();
        assert!(
            text.contains(&header.to_string()) && text.contains(&file.to_string()),
            "{text}"
        );
    }
    let (expected, found) = (8 + 3, 10);
    assert_eq!(parse(3, 100), HeaderProblem::TooShort { expected, found });
}

#[test]
fn fewer_bytes_than_a_length_are_refused() {
    for found in 0..8 {
        let problem = Header::parse(&vec![0; found as usize], found).unwrap_err();
        assert_eq!(problem, HeaderProblem::TooShort { expected: 8, found });
        assert!(problem.to_string().contains(&format!("found {found}")));
    }
}

#[test]
fn bytes_that_are_no_utf8_are_refused_with_their_place() {
    for (json, offset) in [
        (&b"\xff\xfe{}"[..], 8),
        (b"{\"a\xc3\":1}", 11),
        (b"{\"\xed\xa0\x80\":1}", 10),
        (b"{}\x80", 10),
    ] {
        let bytes = with_length(json);
        let problem = safetensors_header::check(&bytes).unwrap_err();
        assert_eq!(problem, HeaderProblem::NotUtf8 { offset });
        assert!(problem.to_string().contains(&format!("offset {offset} ")));
    }
}

#[test]
fn text_that_is_no_map_is_refused() {
    refused_as_json("", None, "EOF");
    refused_as_json("[]", None, "invalid type: sequence, expected a map");
    refused_as_json("null", None, "invalid type: null, expected a map");
    refused_as_json("\u{feff}{}", None, "expected value at line 1 column 1");
    refused_as_json("{", None, "EOF");
    refused_as_json("{1:2}", None, "key must be a string");
    refused_as_json("{} x", None, "trailing characters");
    refused_as_json("{}\0\0", None, "trailing characters");
    refused_as_json("{}{}", None, "trailing characters");
    refused_as_json(r#"{"a":1,}"#, Some("a"), "invalid type: integer `1`");
}

#[test]
fn deep_nesting_ends_in_an_error() {
    let depth = 100_000;
    let arrays = "[".repeat(depth) + &"]".repeat(depth);
    let maps = r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);
    let limit = "recursion limit exceeded";
    refused_as_json(&format!(r#"{{"a":{{"x":{arrays}}}}}"#), Some("a"), limit);
    refused_as_json(&format!(r#"{{"a":{{"x":{maps}}}}}"#), Some("a"), limit);
    refused_as_json(&arrays, None, "expected a map");
    refused_as_json(&maps, Some("a"), limit);
    refused_as_json(
        &format!(r#"{{"__metadata__":{maps}}}"#),
        Some("__metadata__"),
        "expected a string",
    );
    refused_as_json(
        &format!(r#"{{"a":{{"dtype":{maps}}}}}"#),
        Some("a"),
        "unknown variant",
    );
}

#[test]
fn fields_of_the_wrong_form_are_refused() {
    let with = |fields: &str| format!(r#"{{"w":{{{fields}}}}}"#);
    for (fields, says) in [
        (
            r#""shape":[],"data_offsets":[0,4]"#,
            "missing field `dtype`",
        ),
        (
            r#""dtype":"F32","data_offsets":[0,4]"#,
            "missing field `shape`",
        ),
        (
            r#""dtype":"F32","shape":[]"#,
            "missing field `data_offsets`",
        ),
        (r#""dtype":"F32","dtype":"F32""#, "duplicate field `dtype`"),
        (r#""shape":[],"shape":[]"#, "duplicate field `shape`"),
        (
            r#""data_offsets":[0,4],"data_offsets":[0,4]"#,
            "duplicate field `data_offsets`",
        ),
        (
            r#""dtype":7"#,
            "invalid type: integer `7`, expected a dtype",
        ),
        (
            r#""shape":4"#,
            "invalid type: integer `4`, expected a shape",
        ),
        (
            r#""shape":"4""#,
            r#"invalid type: string "4", expected a shape"#,
        ),
        (r#""shape":[[4]]"#, "invalid type: sequence"),
        (r#""data_offsets":[0]"#, "invalid length 1"),
        (r#""data_offsets":[0,4,8]"#, "trailing characters"),
        (r#""data_offsets":null"#, "invalid type: null"),
        (r#""x":1e999"#, "number out of range"),
        (r#""x":"\ud800""#, "hex escape"),
    ] {
        refused_as_json(&with(fields), Some("w"), says);
    }
    refused_as_json(r#"{"w":["F32",[]]}"#, Some("w"), "invalid length 2");
    refused_as_json(
        r#"{"w":["F32",[],[0,4],1]}"#,
        Some("w"),
        "trailing characters",
    );
}

#[test]
fn numbers_that_are_no_lengths_are_refused() {
    for (number, says) in [
        ("-1", "integer `-1`"),
        ("-9223372036854775808", "integer `-9223372036854775808`"),
        ("1.5", "floating point `1.5`"),
        ("4.0", "floating point `4.0`"),
        ("1e3", "floating point `1000.0`"),
        (
            "18446744073709551616",
            "floating point `1.8446744073709552e",
        ),
        ("\"1\"", "string \"1\""),
        ("null", "null"),
        ("true", "boolean `true`"),
    ] {
        let shape = entry("w", "U8", &format!("[{number}]"), "[0,1]");
        refused_as_json(&header_of(&[shape]), Some("w"), says);
        let begin = entry("w", "U8", "[1]", &format!("[{number},1]"));
        refused_as_json(&header_of(&[begin]), Some("w"), says);
        let end = entry("w", "U8", "[1]", &format!("[0,{number}]"));
        refused_as_json(&header_of(&[end]), Some("w"), says);
    }
}

#[test]
fn metadata_that_is_no_map_of_strings_is_refused() {
    let place = Some("__metadata__");
    refused_as_json(r#"{"__metadata__":[]}"#, place, "expected a map");
    refused_as_json(
        r#"{"__metadata__":{"a":1}}"#,
        place,
        "integer `1`, expected a string",
    );
    refused_as_json(
        r#"{"__metadata__":{"a":{}}}"#,
        place,
        "map, expected a string",
    );
    refused_as_json(
        r#"{"__metadata__":{"a":null}}"#,
        place,
        "null, expected a string",
    );
}

#[test]
fn whatever_is_written_twice_is_refused() {
    let twice = |name: &str| HeaderProblem::DuplicateName { name: name.into() };
    let first = entry("w", "U8", "[4]", "[0,4]");
    let second = entry("w", "I8", "[4]", "[4,8]");
    refused(
        &header_of(&[first.clone(), second]),
        8,
        &twice("w"),
        &["\"w\" twice"],
    );
    // One is spelled with an escape, and both claim the same bytes
    let escaped = entry(r"\u0077", "U8", "[4]", "[0,4]");
    refused(&header_of(&[first, escaped]), 4, &twice("w"), &["\"w\""]);
    let empty = entry("e", "U8", "[0]", "[0,0]");
    refused(
        &header_of(&[empty.clone(), empty]),
        0,
        &twice("e"),
        &["\"e\""],
    );
    for json in [
        r#"{"__metadata__":{},"__metadata__":{}}"#,
        r#"{"__metadata__":null,"__metadata__":{}}"#,
        r#"{"__metadata__":{},"__meta\u0064ata__":{"a":"b"}}"#,
    ] {
        refused(json, 0, &twice("__metadata__"), &["\"__metadata__\" twice"]);
    }
    let key = HeaderProblem::DuplicateMetadataKey { key: "k".into() };
    refused(
        r#"{"__metadata__":{"k":"1","k":"2"}}"#,
        0,
        &key,
        &["\"k\" twice", "__metadata__"],
    );
}

#[test]
fn names_that_are_too_long_are_refused() {
    let name = "x".repeat(MAX_NAME_LEN + 1);
    let json = header_of(&[entry(&name, "U8", "[1]", "[0,1]")]);
    let (found, limit) = (MAX_NAME_LEN as u64 + 1, MAX_NAME_LEN as u64);
    refused(
        &json,
        1,
        &HeaderProblem::LongName { name, found, limit },
        &["4097", "4096", "xxx\" and 3897 more bytes"],
    );
    let longest = "x".repeat(MAX_NAME_LEN);
    let bytes = with_length(header_of(&[entry(&longest, "U8", "[0]", "[0,0]")]).as_bytes());
    assert!(safetensors_header::check(&bytes).is_ok());
}

#[test]
fn names_that_would_act_on_a_terminal_are_escaped() {
    let json = header_of(&[entry(r"\u001b[2J\r\n\u202e", "U8", "[2]", "[0,1]")]);
    let text = problem(&json, 1).to_string();
    assert!(text.contains(r#"tensor "\u{1b}[2J\r\n\u{202e}""#), "{text}");
}

#[test]
fn an_unknown_dtype_is_named() {
    for dtype in ["F31", "f32", "", "float32", "F32 "] {
        let (name, found) = ("w".into(), dtype.into());
        let json = header_of(&[entry("w", dtype, "[1]", "[0,4]")]);
        let expected = HeaderProblem::UnknownDtype { name, found };
        refused(&json, 4, &expected, &["\"w\"", &format!("{dtype:?}")]);
    }
}

#[test]
fn ranges_that_overlap_or_leave_a_hole_are_refused() {
    let offsets = |name: &str, expected_begin, found_begin, found_end| HeaderProblem::Offsets {
        name: name.into(),
        expected_begin,
        found_begin,
        found_end,
    };
    let a = |offsets: &str| entry("a", "U8", "[4]", offsets);
    let b = |offsets: &str| entry("b", "U8", "[4]", offsets);
    let json = header_of(&[b("[3,7]"), a("[0,4]")]);
    refused(
        &json,
        7,
        &offsets("b", 4, 3, 7),
        &["\"b\"", "4", "[3, 7]", "overlap"],
    );
    let json = header_of(&[a("[0,4]"), b("[0,4]")]);
    refused(&json, 4, &offsets("b", 4, 0, 4), &["\"b\"", "overlap"]);
    let json = header_of(&[a("[0,4]"), b("[5,9]")]);
    refused(
        &json,
        9,
        &offsets("b", 4, 5, 9),
        &["\"b\"", "4", "[5, 9]", "hole"],
    );
    let json = header_of(&[a("[1,5]")]);
    refused(
        &json,
        5,
        &offsets("a", 0, 1, 5),
        &["\"a\"", "begin at 0", "hole"],
    );
    // An empty tensor in the middle of another
    let empty = entry("e", "U8", "[0]", "[2,2]");
    let json = header_of(&[a("[0,4]"), empty]);
    refused(&json, 4, &offsets("e", 4, 2, 2), &["\"e\"", "overlap"]);
    let (name, begin, end) = ("b".into(), 4, 0);
    let json = header_of(&[a("[0,4]"), b("[4,0]")]);
    refused(
        &json,
        4,
        &HeaderProblem::Reversed { name, begin, end },
        &["\"b\"", "[4, 0]"],
    );
}

#[test]
fn sizes_beyond_64_bits_are_refused() {
    for (shape, text) in [
        (vec![u64::MAX, 2], "[18446744073709551615,2]"),
        (vec![1 << 32, 1 << 32], "[4294967296,4294967296]"),
        (vec![1 << 32, 1 << 32, 0], "[4294967296,4294967296,0]"),
        // The elements fit, their bits do not
        (vec![1 << 61], "[2305843009213693952]"),
    ] {
        let (name, dtype) = ("w".into(), Dtype::F32);
        let json = header_of(&[entry("w", "F32", text, "[0,18446744073709551615]")]);
        let says = ["\"w\"", "F32", &text.replace(',', ", ")];
        refused(
            &json,
            0,
            &HeaderProblem::Overflow { name, dtype, shape },
            &says,
        );
    }
}

#[test]
fn ranges_that_add_up_beyond_64_bits_are_refused() {
    // Each is as long as stated, together they pass 2^64: an addition that wraps would end at a small number
    let len = (1_u64 << 61) - 1;
    let mut entries: Vec<String> = (0..8_u64)
        .map(|i| {
            entry(
                &format!("w{i}"),
                "U8",
                &format!("[{len}]"),
                &format!("[{},{}]", i * len, (i + 1) * len),
            )
        })
        .collect();
    let expected = 8 * len;
    let uncovered = HeaderProblem::Uncovered {
        expected,
        found: 16,
    };
    refused(
        &header_of(&entries),
        16,
        &uncovered,
        &["18446744073709551608", "found 16"],
    );
    entries.push(entry(
        "w8",
        "U8",
        &format!("[{len}]"),
        &format!("[{expected},{}]", expected.wrapping_add(len)),
    ));
    let (name, begin, end) = ("w8".into(), expected, expected.wrapping_add(len));
    // It ends before it begins, so it sorts to where its begin belongs and is refused there
    refused(
        &header_of(&entries),
        16,
        &HeaderProblem::Reversed { name, begin, end },
        &["\"w8\""],
    );
}

#[test]
fn a_size_that_dtype_and_shape_do_not_give_is_refused() {
    for (dtype, shape, offsets, expected, found) in [
        ("F32", "[2]", "[0,4]", 8, 4),
        ("F32", "[]", "[0,8]", 4, 8),
        ("U8", "[0]", "[0,1]", 0, 1),
        ("U8", "[1]", "[0,0]", 1, 0),
        ("F4", "[4]", "[0,4]", 2, 4),
        ("U8", "[1]", "[0,18446744073709551615]", 1, u64::MAX),
    ] {
        let name = "w".into();
        let json = header_of(&[entry("w", dtype, shape, offsets)]);
        let says = ["\"w\"", &expected.to_string(), &found.to_string()];
        refused(
            &json,
            found,
            &HeaderProblem::SizeMismatch {
                name,
                expected,
                found,
            },
            &says,
        );
    }
}

#[test]
fn half_a_byte_at_the_end_is_refused() {
    for (dtype, json, bits) in [
        (Dtype::F4, "F4", 12),
        (Dtype::F6_E2M3, "F6_E2M3", 18),
        (Dtype::F6_E3M2, "F6_E3M2", 18),
    ] {
        let name = "w".into();
        let json = header_of(&[entry("w", json, "[3]", "[0,2]")]);
        let says = ["\"w\"", &bits.to_string(), &format!("{dtype:?}")];
        refused(
            &json,
            2,
            &HeaderProblem::PartialByte { name, dtype, bits },
            &says,
        );
    }
}

#[test]
fn a_file_that_ends_elsewhere_than_its_tensors_is_refused() {
    let json = header_of(&[entry("w", "F32", "[2]", "[0,8]")]);
    for found in [0, 7, 9, 1 << 40] {
        let uncovered = HeaderProblem::Uncovered { expected: 8, found };
        refused(
            &json,
            found,
            &uncovered,
            &["expected 8 bytes", &format!("found {found}")],
        );
        assert!(uncovered.next_step().contains("download it again"));
    }
    let uncovered = HeaderProblem::Uncovered {
        expected: 0,
        found: 1,
    };
    refused("{}", 1, &uncovered, &["expected 0", "found 1"]);
}

#[test]
fn what_exceeds_a_limit_is_refused() {
    let ones = |rank: usize| format!("[{}]", vec!["1"; rank].join(","));
    let name = "w".into();
    let limit = MAX_RANK as u64;
    let json = header_of(&[entry("w", "U8", &ones(MAX_RANK + 1), "[0,1]")]);
    refused(
        &json,
        1,
        &HeaderProblem::RankTooLarge { name, limit },
        &["\"w\"", "64"],
    );
    let json = header_of(&[entry("w", "U8", &ones(MAX_RANK), "[0,1]")]);
    let bytes = with_length(json.as_bytes());
    assert!(Header::parse(&bytes, bytes.len() as u64 + 1).is_ok());

    let mut json = String::from(r#"{"__metadata__":{"":"""#);
    for i in 0..MAX_METADATA_ENTRIES {
        write!(json, r#","{i}":"""#).unwrap();
    }
    json.push_str("}}");
    let bytes = with_length(json.as_bytes());
    let problem = Header::parse(&bytes, bytes.len() as u64).unwrap_err();
    let limit = MAX_METADATA_ENTRIES as u64;
    assert_eq!(problem, HeaderProblem::TooMuchMetadata { limit });
}

/// A header with `count` empty tensors in the array form, the densest there is.
fn many_tensors(count: usize) -> Vec<u8> {
    let mut json = String::from("{");
    for i in 0..count {
        let comma = if i == 0 { "" } else { "," };
        write!(json, r#"{comma}"{i}":["U8",[0],[0,0]]"#).unwrap();
    }
    json.push('}');
    with_length(json.as_bytes())
}

/// All of these share one offset, the worst case for a reader that compares each with each: it would
/// not end within a test run.
#[test]
fn a_million_tensors_are_read_and_more_than_the_limit_are_not() {
    let bytes = many_tensors(1_000_000);
    let header = Header::parse(&bytes, bytes.len() as u64).unwrap();
    assert_eq!(header.tensors.len(), 1_000_000);
    drop(header);
    let bytes = many_tensors(MAX_TENSORS + 1);
    let problem = Header::parse(&bytes, bytes.len() as u64).unwrap_err();
    let limit = MAX_TENSORS as u64;
    assert_eq!(problem, HeaderProblem::TooManyTensors { limit });
}

/// A tensor to write: name, index of the dtype, shape.
type Plan = (String, usize, Vec<u64>);

const DTYPES: [(&str, u64); 8] = [
    ("U8", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("BF16", 16),
    ("F32", 32),
    ("C64", 64),
    ("F8_E8M0", 8),
    ("BOOL", 8),
];

/// A valid file of the planned tensors. Dimensions are multiplied by eight so that dtypes below one byte fill whole bytes.
fn valid_file(
    plans: &[Plan],
    metadata: &[(String, String)],
    reversed: bool,
    padding: usize,
) -> Vec<u8> {
    let mut begin = 0;
    let mut entries = Vec::new();
    for (i, (name, dtype, shape)) in plans.iter().enumerate() {
        let (dtype, bits) = DTYPES[dtype % DTYPES.len()];
        let shape: Vec<u64> = shape.iter().map(|d| d * 8).chain([8]).collect();
        let end = begin + shape.iter().product::<u64>() * bits / 8;
        entries.push(entry(
            &format!("{name}{i}"),
            dtype,
            &format!("{shape:?}"),
            &format!("[{begin}, {end}]"),
        ));
        begin = end;
    }
    if !metadata.is_empty() {
        let pairs: Vec<String> = metadata
            .iter()
            .enumerate()
            .map(|(i, (k, v))| format!(r#""{k}{i}":"{v}""#))
            .collect();
        entries.push(format!(r#""__metadata__":{{{}}}"#, pairs.join(",")));
    }
    if reversed {
        entries.reverse();
    }
    let mut file = with_length((header_of(&entries) + &" ".repeat(padding)).as_bytes());
    file.resize(file.len() + begin as usize, 7);
    file
}

/// One act of damage. Places are reduced modulo the length, so that every number means something.
#[derive(Debug, Clone)]
enum Damage {
    /// Overwrites one byte.
    Byte(usize, u8),
    /// Inserts a token of the format.
    Token(usize, &'static str),
    /// Replaces the n-th number.
    Number(usize, &'static str),
    /// Repeats a piece of the header right behind itself.
    Repeat(usize, usize),
    /// Removes a piece of the header.
    Remove(usize, usize),
    /// Appends bytes to the file, or takes some away.
    Length(isize),
    /// Changes the length field by this much.
    Field(i8),
}

const TOKENS: [&str; 14] = [
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "\\u0000",
    "\"__metadata__\":",
    "\"dtype\":",
    "\"shape\":",
    "F32",
    "-",
];

const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "8",
    "64",
    "-1",
    "1.0",
    "1e2",
    "4294967296",
    "2305843009213693951",
    "18446744073709551615",
    "18446744073709551616",
    "00",
];

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (any::<usize>(), prop::sample::select(&TOKENS[..]))
            .prop_map(|(at, text)| Damage::Token(at, text)),
        (any::<usize>(), prop::sample::select(&NUMBERS[..]))
            .prop_map(|(at, text)| Damage::Number(at, text)),
        (any::<usize>(), 1..80_usize).prop_map(|(at, len)| Damage::Repeat(at, len)),
        (any::<usize>(), 1..80_usize).prop_map(|(at, len)| Damage::Remove(at, len)),
        (-16..16_isize).prop_map(Damage::Length),
        any::<i8>().prop_map(Damage::Field),
    ]
}

/// The file with the damage done; the length field follows the JSON unless the damage is to the field itself.
fn damaged(file: &[u8], acts: &[Damage]) -> Vec<u8> {
    let json_len = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let mut json = file[8..8 + json_len].to_vec();
    let mut data = file[8 + json_len..].to_vec();
    let mut field = 0_i64;
    for act in acts {
        match act {
            Damage::Byte(at, byte) => {
                if let Some(place) = at.checked_rem(json.len()) {
                    json[place] = *byte;
                }
            }
            Damage::Token(at, text) => {
                let at = at % (json.len() + 1);
                json.splice(at..at, text.bytes());
            }
            Damage::Number(nth, text) => replace_number(&mut json, *nth, text),
            Damage::Repeat(at, len) => {
                let piece = piece(&json, *at, *len);
                let copy = json[piece.clone()].to_vec();
                json.splice(piece.end..piece.end, copy);
            }
            Damage::Remove(at, len) => {
                let piece = piece(&json, *at, *len);
                json.drain(piece);
            }
            Damage::Length(change) => data.resize(data.len().saturating_add_signed(*change), 7),
            Damage::Field(change) => field += i64::from(*change),
        }
    }
    let mut file = (json.len() as u64)
        .wrapping_add_signed(field)
        .to_le_bytes()
        .to_vec();
    file.append(&mut json);
    file.append(&mut data);
    file
}

fn piece(json: &[u8], at: usize, len: usize) -> std::ops::Range<usize> {
    let begin = at % (json.len() + 1);
    begin..(begin + len).min(json.len())
}

fn replace_number(json: &mut Vec<u8>, nth: usize, text: &str) {
    let starts: Vec<usize> = (1..json.len())
        .filter(|&i| json[i].is_ascii_digit() && matches!(json[i - 1], b'[' | b',' | b' '))
        .collect();
    let Some(index) = nth.checked_rem(starts.len()) else {
        return;
    };
    let begin = starts[index];
    let len = json[begin..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    json.splice(begin..begin + len, text.bytes());
}

fn valid_files() -> impl Strategy<Value = Vec<u8>> {
    let plan = (
        "[a-z.]{1,6}",
        any::<usize>(),
        prop::collection::vec(0..3_u64, 0..3),
    );
    let metadata = prop::collection::vec(("[a-z]{0,3}", "[a-z ]{0,5}"), 0..3);
    (
        prop::collection::vec(plan, 0..5),
        metadata,
        any::<bool>(),
        0..9_usize,
    )
        .prop_map(|(plans, metadata, reversed, padding)| {
            valid_file(&plans, &metadata, reversed, padding)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// `check` panics where the two readers disagree: accepted here means accepted there with the same tensors, and accepted there
    /// means accepted here but for duplicates, empty names, NUL in names and the limits.
    #[test]
    fn damaged_files_are_judged_as_the_reference_judges_them(
        file in valid_files(),
        acts in prop::collection::vec(damage(), 1..4),
    ) {
        let _ = safetensors_header::check(&damaged(&file, &acts));
    }

    #[test]
    fn valid_files_are_accepted(file in valid_files()) {
        prop_assert!(safetensors_header::check(&file).is_ok());
    }

    #[test]
    fn arbitrary_bytes_never_panic(json in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = safetensors_header::check(&json);
        let _ = safetensors_header::check(&with_length(&json));
    }
}
