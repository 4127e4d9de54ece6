//! Files that PyTorch wrote: `torch.load` never reads them from the store.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// First bytes of a ZIP archive's entry, up to its name.
const ENTRY_BYTES: usize = 30;
/// First bytes of a ZIP archive.
const ZIP: &[u8] = b"PK\x03\x04";
/// Offset of the length of the entry's name, little-endian in two bytes.
const NAME_LENGTH_AT: usize = 26;
/// Longest name of the first entry that is looked at: the archive's name is before it.
const NAME_BYTES: usize = 512;
/// End of the first entry's name.
const PICKLE: &[u8] = b"data.pkl";
/// First bytes before PyTorch 1.6: protocol 2, and the number 0x1950a86a20f9469cfc6c.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// Returns true if the file at `path` is what `torch.save` writes.
pub(crate) fn is_torch_checkpoint(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut front = vec![0; ENTRY_BYTES + NAME_BYTES];
    let len = file.read_at(&mut front, 0).unwrap_or(0);
    front.truncate(len);
    is_torch(&front)
}

fn is_torch(front: &[u8]) -> bool {
    if front.starts_with(LEGACY) {
        return true;
    }
    let length = front.get(NAME_LENGTH_AT..NAME_LENGTH_AT + 2);
    let length = length.map_or(0, |field| {
        usize::from(u16::from_le_bytes([field[0], field[1]]))
    });
    let name = front.get(ENTRY_BYTES..ENTRY_BYTES + length);
    front.starts_with(ZIP) && name.is_some_and(|name| name.ends_with(PICKLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ZIP entry as `torch.save` begins its archive.
    fn entry(name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(ZIP);
        bytes[NAME_LENGTH_AT..NAME_LENGTH_AT + 2]
            .copy_from_slice(&u16::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend(name);
        bytes
    }

    #[test]
    fn both_formats_of_torch_are_recognized_and_other_archives_are_not() {
        assert!(is_torch(&entry(b"pytorch_model/data.pkl")));
        assert!(is_torch(&[LEGACY, b".more"].concat()));
        let mut cut = entry(b"pytorch_model/data.pkl");
        cut.truncate(35);
        for other in [
            &entry(b"weights.npy")[..],
            b"PK\x03\x04",
            b"GGUF",
            b"",
            &cut,
        ] {
            assert!(!is_torch(other), "{other:?}");
        }
    }
}
