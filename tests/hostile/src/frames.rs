//! Frames of HTTP/2 as no client library writes them (RFC 9113, RFC 7541).

/// Kinds of frames.
pub const HEADERS: u8 = 1;
/// End of a stream by an error.
pub const RST_STREAM: u8 = 3;
/// Settings of the sender.
pub const SETTINGS: u8 = 4;
/// Question that the peer must answer.
pub const PING: u8 = 6;
/// More of a head.
pub const CONTINUATION: u8 = 9;
/// Flag of the last frame that the client sends on a stream.
pub const END_STREAM: u8 = 1;
/// Flag of the last frame of a head.
pub const END_HEADERS: u8 = 4;
/// Setting for the window of each stream.
pub const INITIAL_WINDOW: u8 = 4;
/// Method GET, in the static table.
pub const GET: u8 = 0x82;
/// Method POST, in the static table.
pub const POST: u8 = 0x83;
/// Reference to the newest field of the dynamic table.
pub const NEWEST_FIELD: u8 = 0xbe;

/// Preface of a client, with empty settings.
pub fn preface() -> Vec<u8> {
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &frame(SETTINGS, 0, 0, &[])[..],
    ]
    .concat()
}

/// A frame. A payload must have less than 16 MiB.
#[expect(clippy::big_endian_bytes, reason = "HTTP's numbers are")]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![high, middle, low, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Settings with one value.
#[expect(clippy::big_endian_bytes, reason = "HTTP's numbers are")]
pub fn setting(name: u8, value: u32) -> Vec<u8> {
    frame(
        SETTINGS,
        0,
        0,
        &[&[0, name][..], &value.to_be_bytes()].concat(),
    )
}

/// Head of a request to a path of at most 126 bytes, with so many fields that are one byte each: references to one in
/// the table. The first head of a connection puts it there.
pub fn head(method: u8, path: &str, fields: usize, is_first: bool) -> Vec<u8> {
    let mut block = vec![method, 0x86];
    for (name, text) in [(0x04, path), (0x01, "g")] {
        block.extend([name, text.len() as u8]);
        block.extend(text.bytes());
    }
    if is_first {
        block.extend(b"\x40\x01a\x01b");
    }
    block.extend(vec![NEWEST_FIELD; fields]);
    block
}
