//! Changing what is in the store, by every call that changes files.

use std::fs::File;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::mkfifo;
use tetris_container_tests::report::{Line, Tried};

/// Every attempt, on everything in the store at `root`.
pub fn run(root: &Path) -> Result<()> {
    for path in super::files::all(root)? {
        for (what, attempt) in ON_PATHS {
            tell(what, &path, attempt(&path))?;
        }
        if path.is_file() {
            // Not everybody may read all, and what no one holds goes meanwhile.
            let Ok(file) = File::open(&path) else {
                continue;
            };
            for (what, attempt) in ON_FILES {
                tell(what, &path, attempt(&file))?;
            }
        } else if path.is_dir() {
            for (what, attempt) in IN_DIRS {
                tell(what, &path, attempt(&path))?;
            }
        }
    }
    for (what, attempt) in ON_MOUNT {
        tell(what, root, attempt(root))?;
    }
    Ok(())
}

fn tell(what: &str, path: &Path, result: io::Result<()>) -> io::Result<()> {
    let error = result.err().map(|error| match error.raw_os_error() {
        Some(code) => format!("{:?}", Errno::from_raw(code)),
        None => error.to_string(),
    });
    let what = format!("{what} {}", path.display());
    Line::Tried(Tried { what, error }).say()
}

type OnPath = fn(&Path) -> io::Result<()>;
type OnFile = fn(&File) -> io::Result<()>;

const ON_PATHS: [(&str, OnPath); 9] = [
    ("write to", |path| {
        File::options().write(true).open(path).map(drop)
    }),
    ("truncate", |path| Ok(nix::unistd::truncate(path, 0)?)),
    ("change the mode of", |path| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o666))
    }),
    ("give away", |path| chown(path, Some(4242), Some(4242))),
    ("touch", |path| {
        // What cannot be opened cannot be touched by this way either.
        let modified = SystemTime::UNIX_EPOCH;
        File::open(path)?.set_modified(modified)
    }),
    ("remove", |path| {
        if path.is_dir() {
            std::fs::remove_dir(path)
        } else {
            std::fs::remove_file(path)
        }
    }),
    ("rename", |path| {
        std::fs::rename(path, path.with_extension("taken"))
    }),
    ("replace", |path| {
        let file = Path::new("/scratch/own");
        std::fs::write(file, b"mine")?;
        std::fs::rename(file, path)
    }),
    ("make a link to", |path| {
        std::fs::hard_link(path, path.with_extension("link"))
    }),
];

const ON_FILES: [(&str, OnFile); 6] = [
    ("map for writing", |file| {
        // The length, so that an empty file is not its own error.
        MmapOptions::new().len(4096).map_raw(file).map(drop)
    }),
    ("set the length of", |file| file.set_len(1)),
    ("punch a hole into", |file| {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(file, flags, 0, 1)?)
    }),
    ("take the write lock (OFD) of", |file| {
        let lock = super::lock::request(libc::F_WRLCK);
        Ok(fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(drop)?)
    }),
    ("take the write lock (POSIX) of", |file| {
        let lock = super::lock::request(libc::F_WRLCK);
        Ok(fcntl(file, FcntlArg::F_SETLK(&lock)).map(drop)?)
    }),
    ("open anew for writing", |file| {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().write(true).open(path).map(drop)
    }),
];

const IN_DIRS: [(&str, OnPath); 6] = [
    ("make a symbolic link in", |dir| {
        symlink("/etc/passwd", dir.join("planted"))
    }),
    ("make a file in", |dir| {
        File::create_new(dir.join("planted")).map(drop)
    }),
    ("make a nameless file in", |dir| {
        let mut options = File::options();
        let options = options.read(true).write(true);
        let options = options.custom_flags(libc::O_TMPFILE);
        options.open(dir).map(drop)
    }),
    ("make a directory in", |dir| {
        std::fs::create_dir(dir.join("planted"))
    }),
    ("make a FIFO in", |dir| {
        Ok(mkfifo(&dir.join("planted"), Mode::S_IRWXU)?)
    }),
    ("make a device in", |dir| {
        let zero = nix::sys::stat::makedev(1, 5);
        let mode = Mode::S_IRWXU;
        Ok(mknod(&dir.join("planted"), SFlag::S_IFCHR, mode, zero)?)
    }),
];

const ON_MOUNT: [(&str, OnPath); 4] = [
    ("remount writable", |root| {
        remount(root, MsFlags::MS_BIND | MsFlags::MS_REMOUNT)
    }),
    ("remount the file system writable", |root| {
        remount(root, MsFlags::MS_REMOUNT)
    }),
    ("bind elsewhere", |root| {
        let none = None::<&str>;
        Ok(mount(Some(root), "/scratch", none, MsFlags::MS_BIND, none)?)
    }),
    ("become root of another namespace over", |root| {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        remount(root, MsFlags::MS_BIND | MsFlags::MS_REMOUNT)
    }),
];

fn remount(root: &Path, flags: MsFlags) -> io::Result<()> {
    let none = None::<&str>;
    Ok(mount(none, root, none, flags, none)?)
}
