//! The only unsafe code of this crate: mapping a model file for reading.

#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: others could change or cut it"
)]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a whole file read-only and shared, as a loader that maps `*.safetensors` does.
pub fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: the files are model files named by the user, or ones this benchmark wrote into its own
    // directory and closed; none is written or cut while a worker maps it, which is what any loader
    // that maps weights relies on.
    unsafe { Mmap::map(file) }
}
