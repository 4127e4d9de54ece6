//! Conditions on any bytes taken for the gateway's configuration. Shared by the fuzz target
//! and the tests of the gateway.

use tetris_gateway::config::{Config, MAX_CONFIG_BYTES};

use tetris_test_support::heap::Bound;

/// Nearly all of it is the tree of the TOML library, in which a part of a dotted key takes 2 bytes of the text and
/// up to 1,150 of memory. The length of a file is limited for that.
pub const HEAP: Bound = Bound {
    fixed: 64 << 10,
    per_byte: 640,
};
/// Longest message in bytes.
const MAX_MESSAGE: usize = 2_000;

/// Reads a file. Returns the reason it is refused.
///
/// # Panics
///
/// If a message is unfit for a log, or a file takes too much memory.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let read = HEAP.hold(bytes.len(), || Config::parse(text));
    let read = read.map_err(|problem| problem.to_string());
    assert!(bytes.len() as u64 <= MAX_CONFIG_BYTES || read.is_err());
    if let Err(problem) = &read {
        assert!((1..=MAX_MESSAGE).contains(&problem.len()), "{problem}");
        let unfit = |letter: char| letter.is_control() && letter != '\n';
        assert!(!problem.contains(unfit), "{problem:?}");
    }
    read.map(drop)
}
