//! The server takes a request with the authority that the kubelet's plugin manager sends, byte for
//! byte: HTTP/2 by hand, because clients in Rust refuse to send what the server might refuse.

#![expect(clippy::big_endian_bytes, reason = "HTTP/2 is")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tempfile::TempDir;
use tetris_node::csi::CsiConfig;

use crate::csi::fixture::{Driver, PATIENCE};

/// Types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
/// Flags.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A field without indexing or Huffman code (RFC 7541, section 6.2.2). Lengths have 7 bits, and
/// more if they are all set.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| {
        let length = match u8::try_from(text.len()).unwrap() {
            short @ 0..127 => vec![short],
            long => vec![127, long - 127],
        };
        [length, text.as_bytes().to_vec()].concat()
    };
    [vec![0], text(name), text(value)].concat()
}

/// Encodes a path as gRPC for Go does before it connects: it keeps the characters that RFC 3986
/// allows in an authority.
fn encoded(path: &Path) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]@".contains(c);
    let encode = |c: char| {
        if keep(c) {
            c.to_string()
        } else {
            format!("%{:02X}", c as u32)
        }
    };
    path.to_str().unwrap().chars().map(encode).collect()
}

/// Asks for the driver's information under this authority; returns the type of the frame that
/// answers.
fn answer(socket: &Path, authority: &str) -> u8 {
    let fields = [
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", "/pluginregistration.Registration/GetInfo"),
        field(":authority", authority),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ];
    let request = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &fields.concat()),
        // An empty message: not compressed, of length 0.
        frame(DATA, END_STREAM, 1, &[0; 5]),
    ];
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&request.concat()).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        if matches!(head[3], HEADERS | RST_STREAM) {
            return head[3];
        }
    }
}

fn config(dir: &TempDir) -> CsiConfig {
    CsiConfig {
        kubelet_dir: dir.path().to_owned(),
        ..CsiConfig::default()
    }
}

#[test]
fn the_plugin_manager_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Driver::start(&config(&dir), Vec::new());
    let socket = config(&dir).registration_socket();
    assert_eq!(answer(&socket, &encoded(&socket)), HEADERS);
    // The CSI client of the kubelet.
    assert_eq!(answer(&socket, "localhost"), HEADERS);
    // Why the socket is not called as others are. When this fails, it can be.
    let usual = socket.with_file_name("csi.tetris.dev-reg.sock");
    assert_eq!(answer(&socket, &encoded(&usual)), RST_STREAM);
    driver.stop().unwrap();
}

#[test]
fn where_the_kubelet_is_by_default_the_authority_is_sound_too() {
    let socket = CsiConfig::default().registration_socket();
    let expected = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Freg@csi.tetris.dev.sock";
    assert_eq!(encoded(&socket), expected);
    assert!(expected.parse::<http::uri::Authority>().is_ok());
    let name = socket.file_name().unwrap().to_str().unwrap();
    assert!(!name.starts_with('.'), "the kubelet would not look at it");
}
