//! Fixtures of a protocol: frames that a released version wrote, which later versions read
//! (docs/compatibility.md).
//!
//! A fixture has a line for each message: its name, and the frame in hexadecimal. The first line is
//! the preamble. `UPDATE_FIXTURES=1` adds the messages that the fixture of the current version lacks,
//! and changes no line.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tetris_wire::{FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES};

/// A message of a fixture.
pub struct Kept {
    pub name: String,
    pub kind: u8,
    pub payload: Vec<u8>,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// The file of the fixture `name` of the crate in the folder `package`.
fn file(package: &str, name: &str) -> PathBuf {
    Path::new(package).join(format!("tests/fixtures/{name}.frames"))
}

/// Checks that the fixture of the current version has exactly these frames under these names.
pub fn check_current(package: &str, name: &str, preamble: &[u8], messages: &[(String, Vec<u8>)]) {
    let file = file(package, name);
    let mut text = std::fs::read_to_string(&file).unwrap_or_default();
    let updates = std::env::var_os("UPDATE_FIXTURES").is_some();
    let first = ("preamble".to_owned(), preamble.to_vec());
    for (name, frame) in std::iter::once(&first).chain(messages) {
        let head = format!("{name} ");
        let line = head.clone() + &hexadecimal(frame);
        if updates && !text.lines().any(|other| other.starts_with(&head)) {
            text += &(line.clone() + "\n");
        }
        let is_there = text.lines().any(|other| other == line);
        assert!(
            is_there,
            "expected the line `{line}` in `{}`; UPDATE_FIXTURES=1 adds it",
            file.display()
        );
    }
    if updates {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

/// Reads a fixture: its preamble and its messages.
pub fn read(package: &str, name: &str) -> ([u8; PREAMBLE_BYTES], Vec<Kept>) {
    let text = std::fs::read_to_string(file(package, name)).unwrap();
    let mut lines = text.lines().map(|line| line.split_once(' ').unwrap());
    let (_, preamble) = lines.next().unwrap();
    let kept = lines.map(|(name, frame)| {
        let frame = bytes(frame);
        let (header, payload) = frame.split_at(FRAME_HEADER_BYTES);
        let header = FrameHeader::decode(header.try_into().unwrap()).unwrap();
        assert_eq!(header.len, payload.len(), "{name}");
        Kept {
            name: name.to_owned(),
            kind: header.kind,
            payload: payload.to_vec(),
            frame,
        }
    });
    (bytes(preamble).try_into().unwrap(), kept.collect())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}
