//! Conditions on any bytes taken for a daemon's page `/inventory/objects`. Shared by the fuzz
//! target and the tests of the scaler.

use tetris_scaler::nodes::{Page, PageError, decompressed};

use tetris_test_support::heap::Bound;

/// Node whose page is asked for.
pub const NODE: &str = "a";
/// First byte of an input: a page as it is, and one that is compressed.
pub const PLAIN: u8 = 0;
pub const GZIP: u8 = 1;
/// Largest page in bytes, after decompression.
pub const MAX_PAGE: usize = 1 << 20;

/// An object takes 67 bytes of the page and up to 96 of memory, a store at least 38 and up to 240 where the
/// list has just grown.
pub const HEAP: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 8,
};
/// Decompression takes what the page has at most, twice where the buffer has just grown, and its tables.
pub const DECOMPRESSION: Bound = Bound {
    fixed: (2 * MAX_PAGE) + (128 << 10),
    per_byte: 0,
};

/// Reads a page. Returns the reason it is refused.
///
/// # Panics
///
/// If an accepted page has more room in a store than in all together, a page takes too much memory, or a
/// message is unfit for a log.
pub fn check(input: &[u8]) -> Result<(), String> {
    match input.split_first() {
        Some((&GZIP, bytes)) => {
            let page = DECOMPRESSION.hold(bytes.len(), || decompressed(bytes, MAX_PAGE));
            let page = page.map_err(|error| printable(&error))?;
            assert!(page.len() <= MAX_PAGE, "{} bytes", page.len());
            read(&page)
        }
        Some((_, bytes)) => read(bytes),
        None => Err("no bytes".to_owned()),
    }
}

fn read(bytes: &[u8]) -> Result<(), String> {
    let page = HEAP.hold(bytes.len(), || Page::read(bytes, NODE));
    let page = page.map_err(|error| printable(&error))?;
    if let Some(room) = page.room {
        let most = room.stores.values().max().copied().unwrap_or_default();
        assert!(most <= room.free_bytes, "{room:?}");
    }
    assert!(page.gpus.len() <= 64, "{}", page.gpus.len());
    Ok(())
}

/// Returns the message, which is fit for a log.
fn printable(error: &PageError) -> String {
    let problem = error.to_string();
    assert!((1..4_000).contains(&problem.len()), "{problem}");
    assert!(!problem.contains(char::is_control), "{problem:?}");
    problem
}
