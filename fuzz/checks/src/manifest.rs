//! Checks for any bytes taken for a manifest. Shared by the fuzz target and the tests of
//! the loader.

use tetris_store_layout::{DecodeError, Manifest, ManifestId};

/// Decodes `bytes` and compares the result with them; returns the result of the decoder.
///
/// # Panics
/// If an accepted manifest has another encoding, or a tensor lies outside its file or object.
pub fn check(bytes: &[u8]) -> Result<Manifest, DecodeError> {
    let result = Manifest::decode(bytes);
    match &result {
        Ok(manifest) => {
            assert!(
                manifest.encode() == bytes,
                "a second encoding of {manifest:?}"
            );
            assert_eq!(manifest.id(), ManifestId::of(bytes));
            assert_eq!(manifest.check(), Ok(()));
            inside(manifest);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    result
}

/// Every tensor lies inside the file it came from and inside its object.
fn inside(manifest: &Manifest) {
    for tensor in &manifest.tensors {
        let source_end = manifest
            .data_start
            .checked_add(tensor.source_offset)
            .and_then(|begin| begin.checked_add(tensor.len));
        assert!(
            source_end.is_some_and(|end| end <= manifest.source_size),
            "{tensor:?}"
        );
        match tensor.place {
            None => assert_eq!(tensor.len, 0, "{tensor:?}"),
            Some(place) => {
                let object = &manifest.objects[place.object as usize].object;
                let end = place.offset.checked_add(tensor.len);
                assert!(
                    end.is_some_and(|end| end <= object.len),
                    "{tensor:?} in {object:?}"
                );
            }
        }
    }
}
