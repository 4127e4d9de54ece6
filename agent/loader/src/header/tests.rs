//! Headers that the reader accepts, and files as they come from a disk. Hostile bytes are in
//! `tests/hostile_headers.rs`.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;

use super::{Dtype, Header, HeaderError, HeaderProblem, MAX_HEADER_LEN};

/// Every dtype of the format with its width in bits.
const DTYPES: [(&str, u64); 22] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

fn with_length(json: &str) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

/// Parses `json` as the header of a file with `data_len` bytes of data.
fn parse(json: &str, data_len: u64) -> Result<Header, HeaderProblem> {
    let bytes = with_length(json);
    Header::parse(&bytes, bytes.len() as u64 + data_len)
}

fn names(header: &Header) -> Vec<&str> {
    header.tensors.iter().map(|t| t.name.as_str()).collect()
}

#[test]
fn every_dtype_is_accepted_in_whole_bytes_only() {
    for (dtype, bits) in DTYPES {
        let json = |elements: u64| {
            let end = (elements * bits).div_ceil(8);
            let json = format!(
                r#"{{"a":{{"dtype":"{dtype}","shape":[{elements}],"data_offsets":[0,{end}]}}}}"#
            );
            (json, end)
        };
        let (whole, end) = json(4);
        let header = parse(&whole, end).unwrap();
        assert_eq!(format!("{:?}", header.tensors[0].dtype), dtype);
        assert_eq!(header.tensors[0].byte_len(), bits / 2);
        let (partial, end) = json(3);
        if bits < 8 {
            assert!(
                matches!(parse(&partial, end), Err(HeaderProblem::PartialByte { bits: found, .. }) if found == 3 * bits)
            );
        } else {
            assert_eq!(parse(&partial, end).unwrap().tensors[0].end, end);
        }
    }
}

#[test]
fn a_scalar_has_one_element_and_a_zero_dimension_has_none() {
    let header = parse(
        r#"{"scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"none":{"dtype":"F32","shape":[0,9],"data_offsets":[8,8]}}"#,
        8,
    )
    .unwrap();
    assert_eq!(names(&header), ["scalar", "none"]);
    assert_eq!(header.tensors[0].shape, [0_u64; 0]);
    assert_eq!(header.tensors[1].byte_len(), 0);
}

#[test]
fn tensors_come_in_file_order_and_empty_ones_by_name() {
    let header = parse(
        r#"{"z":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},
            "b":{"dtype":"U8","shape":[0],"data_offsets":[3,3]},
            "y":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},
            "a":{"dtype":"I8","shape":[0],"data_offsets":[3,3]}}"#,
        5,
    )
    .unwrap();
    assert_eq!(names(&header), ["y", "a", "b", "z"]);
}

#[test]
fn metadata_may_be_there_absent_or_null() {
    let header = parse(r#"{"__metadata__":{"format":"pt","":"x"}}"#, 0).unwrap();
    assert_eq!(header.metadata["format"], "pt");
    assert_eq!(header.metadata[""], "x");
    assert!(parse("{}", 0).unwrap().metadata.is_empty());
    assert!(
        parse(r#"{"__metadata__":null}"#, 0)
            .unwrap()
            .metadata
            .is_empty()
    );
}

#[test]
fn a_file_without_tensors_is_valid() {
    let header = parse("{}", 0).unwrap();
    assert!(header.tensors.is_empty());
    assert_eq!(header.data_start, 10);
}

#[test]
fn padding_is_part_of_the_header() {
    let json = r#" {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}    "#;
    let header = parse(json, 1).unwrap();
    assert_eq!(header.data_start, 8 + json.len() as u64);
}

#[test]
fn fields_may_be_unknown_and_in_any_order() {
    let header = parse(
        r#"{"a":{"data_offsets":[0,2],"x":{"y":[1,-1,1.5,true,null,"s",{}]},"shape":[1],"dtype":"BF16"}}"#,
        2,
    )
    .unwrap();
    assert_eq!(header.tensors[0].dtype, Dtype::BF16);
}

#[test]
fn the_array_form_that_the_reference_accepts_is_accepted() {
    let header = parse(r#"{"a":["F32",[2],[0,8]],"b":[{"U8":null},[1],[8,9]]}"#, 9).unwrap();
    assert_eq!(names(&header), ["a", "b"]);
    assert_eq!(header.tensors[1].dtype, Dtype::U8);
}

#[test]
fn bytes_behind_the_header_are_not_looked_at() {
    let mut bytes = with_length(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#);
    let file_len = bytes.len() as u64 + 1;
    bytes.extend_from_slice(b"\xffmore than the file has");
    assert!(Header::parse(&bytes, file_len).is_ok());
}

#[test]
fn a_pointer_of_git_lfs_is_told_from_a_damaged_file() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4000000000\n";
    let len = pointer.len() as u64;
    let problem = HeaderProblem::LfsPointer { file: len };
    assert_eq!(Header::parse(pointer, len), Err(problem.clone()));
    let temp = file_with(pointer);
    let error = Header::read(temp.as_file(), len, temp.path()).unwrap_err();
    assert!(error.to_string().contains("git lfs pull"), "{error}");
    let HeaderError::Invalid { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source, problem);
    // Cut off, it is any damaged file.
    let temp = file_with(&pointer[..20]);
    let error = Header::read(temp.as_file(), 20, temp.path()).unwrap_err();
    assert!(!error.to_string().contains("lfs"), "{error}");
}

fn file_with(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_file_is_read_wherever_its_cursor_is() {
    let mut bytes = with_length(r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#);
    let front = bytes.clone();
    bytes.extend_from_slice(&[1, 2, 3]);
    let temp = file_with(&bytes);
    let (header, raw) = Header::read(temp.as_file(), bytes.len() as u64, temp.path()).unwrap();
    assert_eq!(names(&header), ["a"]);
    assert_eq!(raw, front);
}

#[test]
fn an_error_names_the_file_the_cause_and_the_next_step() {
    let temp = file_with(b"1234");
    let error = Header::read(temp.as_file(), 4, Path::new("/models/a.safetensors")).unwrap_err();
    assert!(matches!(&error, HeaderError::Invalid { source, .. }
        if *source == HeaderProblem::TooShort { expected: 8, found: 4 }));
    assert_eq!(error.path(), Path::new("/models/a.safetensors"));
    let text = error.to_string();
    assert!(text.contains("`/models/a.safetensors`"), "{text}");
    assert!(text.contains("download it again"), "{text}");
}

#[test]
fn a_file_shorter_than_said_is_an_io_error() {
    let temp = file_with(&with_length("{}"));
    assert!(Header::read(temp.as_file(), 10, temp.path()).is_ok());
    temp.as_file().set_len(9).unwrap();
    let error = Header::read(temp.as_file(), 10, Path::new("x")).unwrap_err();
    assert!(matches!(&error, HeaderError::Read { source, .. }
        if source.kind() == std::io::ErrorKind::UnexpectedEof));
}

#[test]
fn a_length_is_refused_before_anything_is_allocated_for_it() {
    let temp = file_with(&u64::MAX.to_le_bytes());
    // The caller's length is a lie, so only the cap can refuse
    let error = Header::read(temp.as_file(), u64::MAX, Path::new("x")).unwrap_err();
    assert!(matches!(
        error,
        HeaderError::Invalid {
            source: HeaderProblem::TooLarge {
                found: u64::MAX,
                limit: MAX_HEADER_LEN
            },
            ..
        }
    ));
}

#[test]
fn a_directory_is_an_io_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = Header::read(&File::open(dir.path()).unwrap(), 4096, dir.path()).unwrap_err();
    assert!(matches!(error, HeaderError::Read { .. }));
}
