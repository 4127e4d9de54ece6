//! Pages of a file that the kernel keeps in its page cache.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::libc;
use nix::unistd::{AccessFlags, Uid, access, geteuid};

/// Bytes mapped at a time: a vector of 64 Ki answers per call.
const WINDOW: u64 = 256 << 20;

/// Number of bytes of `file` whose pages are in the page cache: memory that processes share when
/// they map the file. `None` where the kernel does not tell this user, who neither owns the file nor
/// may write to it (mincore(2)).
///
/// Nothing of the file is read, and none of its pages is touched.
///
/// # Errors
/// When the file cannot be asked for its length or mapped.
pub fn cached_bytes(file: &File) -> io::Result<Option<u64>> {
    let metadata = file.metadata()?;
    if !is_told(file, Uid::from_raw(metadata.uid())) {
        return Ok(None);
    }
    let (len, page) = (metadata.len(), rustix::param::page_size() as u64);
    let mut cached = 0;
    for offset in (0..len).step_by(WINDOW as usize) {
        let window = WINDOW.min(len - offset);
        let pages = window.div_ceil(page);
        let resident = resident_pages(file, offset, window as usize, pages as usize)?;
        // The last page may be longer than the rest of the file.
        cached += (resident * page).min(window);
    }
    Ok(Some(cached))
}

/// Returns true if mincore(2) informs this user about a file of `owner`; others see that all
/// pages are there.
fn is_told(file: &File, owner: Uid) -> bool {
    let user = geteuid();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    user.is_root() || user == owner || access(path.as_str(), AccessFlags::W_OK).is_ok()
}

/// Number of resident pages among the `pages` pages of `len` bytes at `offset`.
fn resident_pages(file: &File, offset: u64, len: usize, pages: usize) -> io::Result<u64> {
    let mut options = MmapOptions::new();
    let map = options.offset(offset).len(len).map_raw_read_only(file)?;
    let mut answers = vec![0_u8; pages];
    // SAFETY: the range is that of a mapping that lives until the end of this function, and the vector
    // has a byte for each of its pages. The call reads no byte of the file, so a file that is
    // truncated meanwhile raises no signal.
    let answered = unsafe { libc::mincore(map.as_mut_ptr().cast(), len, answers.as_mut_ptr()) };
    Errno::result(answered)?;
    // The other bits of each answer are reserved.
    Ok(answers.iter().filter(|answer| **answer & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pages_that_were_just_written_are_in_the_cache() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(cached_bytes(&file).unwrap(), Some(0));
        let bytes = vec![7; 3 * 4096 + 5];
        file.write_all(&bytes).unwrap();
        assert_eq!(cached_bytes(&file).unwrap(), Some(bytes.len() as u64));
    }

    #[test]
    fn a_hole_is_not_in_the_cache() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * WINDOW + 1).unwrap();
        assert_eq!(cached_bytes(&file).unwrap(), Some(0));
    }
}
