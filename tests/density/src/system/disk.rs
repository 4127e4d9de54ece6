//! Free disk space, plain copies, and the page cache of a file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statvfs::statvfs;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::units::GIB;

/// Number of bytes that always stay free on the disk.
const RESERVE: u64 = GIB;
/// Size of one write of a copy: that of a download, so that the page cache gets the same small
/// pages.
const PIECE: usize = 16 * 1024;
/// Size of one read that brings a file into the page cache.
const READ_AHEAD: usize = 1 << 20;

/// Number of bytes free for this user on the file system of a path.
pub fn free(path: &Path) -> Result<u64> {
    let stat = statvfs(path).map_err(|error| Error::io("examine", path)(error.into()))?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

/// Number of bytes in use on the file system of a path.
pub fn used(path: &Path) -> Result<u64> {
    let stat = statvfs(path).map_err(|error| Error::io("examine", path)(error.into()))?;
    Ok((stat.blocks() - stat.blocks_free()) * stat.fragment_size())
}

/// Checks that `bytes` more do not fill the disk.
pub fn require(path: &Path, bytes: u64) -> Result<()> {
    let (free, needed) = (free(path)?, bytes + RESERVE);
    if free < needed {
        return Err(Error::Disk {
            path: path.to_path_buf(),
            free,
            needed,
        });
    }
    Ok(())
}

/// Copies a file in small writes, and sets the original's modification time.
pub fn copy_in_pieces(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(Error::io("open", from))?;
    let modified = source
        .metadata()
        .and_then(|data| data.modified())
        .map_err(Error::io("examine", from))?;
    let mut target = File::create_new(to).map_err(Error::io("create", to))?;
    let mut piece = vec![0; PIECE];
    loop {
        let count = source.read(&mut piece).map_err(Error::io("read", from))?;
        if count == 0 {
            break;
        }
        target
            .write_all(&piece[..count])
            .map_err(Error::io("write", to))?;
        if interrupt::raised() {
            return Err(Error::Interrupted);
        }
    }
    target
        .set_modified(modified)
        .map_err(Error::io("set the time of", to))
}

/// Waits until a file's ctime is older than the clock's granularity (LAYOUT.md 8), which no call sets.
pub fn settle(path: &Path) -> Result<()> {
    const GRANULARITY: Duration = Duration::from_millis(100);
    let file = path.metadata().map_err(Error::io("examine", path))?;
    let [seconds, nanoseconds] = [file.ctime(), file.ctime_nsec()].map(i64::unsigned_abs);
    let changed = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
    while SystemTime::now()
        .duration_since(changed)
        .is_ok_and(|age| age < GRANULARITY)
    {
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Drops a file from the page cache and reads it again in large reads: the state of a file that was
/// there before, and the page cache at its best.
pub fn refresh_cache(path: &Path) -> Result<()> {
    drop_cache(path)?;
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let mut buffer = vec![0; READ_AHEAD];
    while file.read(&mut buffer).map_err(Error::io("read", path))? > 0 {}
    Ok(())
}

/// Drops a file from the page cache; mapped pages stay.
pub fn drop_cache(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    // Only clean pages can be dropped.
    file.sync_all().map_err(Error::io("write back", path))?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .map_err(|error| Error::io("drop from the page cache", path)(error.into()))
}

/// Removes a directory tree; a missing one is no error.
pub fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
