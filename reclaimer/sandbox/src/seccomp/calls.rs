//! Names of permitted system calls, by purpose.
//!
//! The lists are those of Linux on x86-64 and AArch64, and for glibc and musl: one library asks by `open`, the other by
//! `openat`, with the same effect. A call that only one architecture has stands in its own list.

use nix::libc;

/// `fchmodat2`, which libc names for some architectures alone.
const FCHMODAT2: i64 = 452;

/// Files by path and by descriptor. Landlock and the user of the process say which.
const FILES: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_fadvise64,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
];

/// Memory. `mmap` and `mprotect` are permitted with their arguments.
const MEMORY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_memfd_create,
    libc::SYS_membarrier,
];

/// Threads of this process. `clone` and `prctl` are permitted with their arguments.
const THREADS: &[i64] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
];

/// Signals that this process receives. `kill` and `tgkill` are permitted to the process itself.
const SIGNALS: &[i64] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
];

/// Time.
const TIME: &[i64] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
];

/// Waiting for descriptors, and changes of directories.
const EVENTS: &[i64] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];

/// The process itself: its ids, its limits, its machine. `prlimit64` is permitted for the process itself.
const SELF: &[i64] = &[
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_capget,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

/// Sockets that are open. `socket` and `socketpair` are permitted by their family. `pidfd_open` makes a descriptor by which
/// the end of a peer is noticed; nothing can be sent through it here.
const SOCKETS: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_pidfd_open,
];

/// Calls of x86-64 alone; AArch64 has their newer forms above.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_lchown,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_inotify_init,
    libc::SYS_getrlimit,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ARCHITECTURE: &[i64] = &[libc::SYS_getrlimit];

/// musl sends signals to threads of the calling process by their number alone.
#[cfg(target_env = "musl")]
const LIBRARY: &[i64] = &[libc::SYS_tkill];
#[cfg(not(target_env = "musl"))]
const LIBRARY: &[i64] = &[];

/// Libraries of device drivers, besides `ioctl`, `mmap` and `mprotect` with any argument.
const DRIVERS: &[i64] = &[
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
];

/// The first number of a call that is newer than these lists: both architectures number calls alike by then.
const FIRST_UNKNOWN: i64 = FCHMODAT2 + 1;
/// The last number that a kernel can give a call of these architectures; x32 begins after it.
const LAST_UNKNOWN: i64 = 511;

/// Calls permitted with any arguments.
pub(super) fn permitted(drivers: bool) -> impl Iterator<Item = i64> {
    let groups = [
        FILES,
        MEMORY,
        THREADS,
        SIGNALS,
        TIME,
        EVENTS,
        SELF,
        SOCKETS,
        ARCHITECTURE,
        LIBRARY,
        if drivers { DRIVERS } else { &[] },
    ];
    groups.into_iter().flatten().copied()
}

/// Calls that are answered as by a kernel that has none of this number, so that libraries take an older one: `clone3`, whose
/// arguments no filter can see, and all that are newer than these lists.
pub(super) fn missing() -> impl Iterator<Item = i64> + Clone {
    std::iter::once(libc::SYS_clone3).chain(FIRST_UNKNOWN..=LAST_UNKNOWN)
}
