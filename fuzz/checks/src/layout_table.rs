//! Conditions on any bytes taken for the table of a layout. Shared by the fuzz target and the
//! tests of the store's layout.

use tetris_store_layout::Layout;

use tetris_test_support::heap::Bound;

/// A source takes 32 bytes of the table and about twice that in memory, a tensor at least 25 bytes and about
/// 160 with its name in the set of names, an attribute 9 bytes and about 100.
pub const HEAP: Bound = Bound {
    fixed: 64 << 10,
    per_byte: 8,
};

/// Decodes a table, whose integrity is its object's name.
///
/// # Panics
///
/// If an accepted table has a second encoding or a tensor outside of its object, a message is unfit for
/// a terminal, or decoding takes too much memory.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let decoded = HEAP.hold(bytes.len(), || Layout::decode(bytes));
    let layout = decoded.map_err(|error| {
        let text = error.to_string();
        assert!((1..2000).contains(&text.len()), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
        text
    })?;
    assert!(layout.encode() == bytes, "a second encoding of {layout:?}");
    for tensor in &layout.tensors {
        let extent = tensor.extent().expect("it was checked");
        let Some(place) = tensor.place else { continue };
        let object = &layout.objects[place.object as usize];
        assert!(place.offset + extent <= object.len, "{tensor:?}");
    }
    Ok(())
}
