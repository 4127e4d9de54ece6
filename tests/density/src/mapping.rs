//! The only unsafe code of this crate: mapping a model file for reading.

#![expect(
    unsafe_code,
    reason = "mapping a file is unsafe: other processes could change or truncate it"
)]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a whole file read-only and shared, like a loader that maps `*.safetensors`.
pub fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: the files are model files named by the user, or files that this benchmark wrote into
    // its own directory and closed. No process writes or truncates them while a worker maps them;
    // every loader that maps weights relies on this.
    unsafe { Mmap::map(file) }
}
