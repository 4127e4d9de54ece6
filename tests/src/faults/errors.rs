//! Errors that each system call can return (its manual page), of those that a healthy machine knows.

/// System calls that are traced.
pub(super) const TRACED: &str = "openat,fallocate,pwrite64,pread64,read,write,fchmod,linkat,unlinkat,\
    unlink,rename,renameat,renameat2,fcntl,mmap,fstat,newfstatat,statx,stat,lstat,getdents64,fstatfs,\
    statfs,lseek,utimensat,mkdir,mkdirat,ftruncate,access,faccessat,faccessat2,getrandom,madvise,readlink";

/// The errors of one call. `line` is what strace wrote about it.
pub(super) fn of(name: &str, line: &str) -> &'static [&'static str] {
    match name {
        "openat" if line.contains("O_TMPFILE") || line.contains("O_CREAT") => {
            &["EINTR", "EIO", "EMFILE", "EACCES", "ENOSPC"]
        }
        "openat" => &["EINTR", "EIO", "EMFILE", "EACCES"],
        "fallocate" | "pwrite64" | "write" => &["EINTR", "EIO", "ENOSPC"],
        "pread64" | "read" | "fstatfs" | "statfs" | "ftruncate" => &["EINTR", "EIO"],
        "fchmod" => &["EIO", "EPERM"],
        "linkat" | "rename" | "renameat" | "renameat2" | "mkdir" | "mkdirat" => {
            &["EIO", "ENOSPC", "EACCES"]
        }
        "unlinkat" | "unlink" | "utimensat" => &["EIO", "EACCES"],
        "fcntl" if line.contains("F_OFD_SETLK") => &["EINTR", "EAGAIN", "ENOLCK"],
        "fcntl" if line.contains("F_DUPFD") => &["EMFILE"],
        // A mapping without a file is the allocator's or the agent's buffer, which are not distinguished: an
        // allocation that fails ends a Rust program.
        "mmap" if !line.contains("MAP_ANONYMOUS") => &["ENOMEM", "EACCES"],
        "newfstatat" | "statx" | "stat" | "lstat" | "access" | "faccessat" | "faccessat2" => {
            &["EIO", "EACCES"]
        }
        "fstat" | "getdents64" | "lseek" => &["EIO"],
        "getrandom" => &["EINTR"],
        "madvise" => &["EIO", "ENOMEM"],
        // close(2) always closes, whatever it returns; a call that is not made at all would leak.
        _ => &[],
    }
}
