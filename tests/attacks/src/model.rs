//! Model files whose bytes follow from a number.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

/// Name of the tensor in each file.
pub const TENSOR: &str = "w";

/// Bytes that follow from `seed`, and differ in every block from those of another one.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Header of a file with one tensor of `len` bytes, and with `metadata` where that is not empty.
pub fn header(len: u64, metadata: &str) -> Vec<u8> {
    let metadata = match metadata {
        "" => String::new(),
        text => format!(r#""__metadata__":{{"text":"{text}"}},"#),
    };
    let tensor = format!(r#""{TENSOR}":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}"#);
    prefixed(&format!("{{{metadata}{tensor}}}"))
}

/// Header of a file without tensors, whose metadata is `text`.
pub fn metadata_alone(text: &str) -> Vec<u8> {
    prefixed(&format!(r#"{{"__metadata__":{{"text":"{text}"}}}}"#))
}

fn prefixed(header: &str) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes
}

/// Writes the model of `seed` with a tensor of `len` bytes, and waits until its time stamp can be relied on.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, seed: u64, len: usize) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    file.write_all(&header(len as u64, ""))?;
    file.write_all(&bytes(seed, len))?;
    drop(file);
    settle(path)
}

/// Writes a model whose tensor of `len` bytes is a hole, but for its last 8 bytes, which are `seed`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_sparse(path: &Path, seed: u64, len: u64) -> Result<()> {
    let header = header(len, "");
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    file.write_all_at(&header, 0)?;
    file.write_all_at(&seed.to_le_bytes(), header.len() as u64 + len - 8)?;
    drop(file);
    settle(path)
}

/// Waits until the file's ctime is as old as it must be for its identity to be bound (LAYOUT.md 8).
///
/// # Errors
/// When the file is gone.
pub fn settle(path: &Path) -> Result<()> {
    const GRANULARITY: Duration = Duration::from_millis(100);
    let file = std::fs::metadata(path)?;
    let ctime = UNIX_EPOCH + Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
    while SystemTime::now()
        .duration_since(ctime)
        .is_ok_and(|age| age < GRANULARITY)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
