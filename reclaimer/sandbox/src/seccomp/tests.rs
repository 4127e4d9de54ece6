//! Answers of the compiled filters, by a small interpreter of their instructions. So the calls that no safe library has are
//! asked for as well.

use nix::libc;
use seccompiler::sock_filter;

use super::*;
use crate::{Rights, SocketFamily};

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;
const I386: u32 = 0x4000_0003;

fn errno(errno: Errno) -> u32 {
    0x0005_0000 | errno as u32
}

/// A call as the kernel shows it to filters.
struct Call {
    number: i64,
    architecture: u32,
    arguments: [u64; 6],
}

impl Call {
    /// The word at an offset of `struct seccomp_data` (seccomp(2)).
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number as u32,
            4 => self.architecture,
            16.. => {
                let at = (offset - 16) as usize;
                (self.arguments[at / 8] >> (at % 8 * 8)) as u32
            }
            _ => panic!("no filter asks where a call comes from"),
        }
    }
}

/// The answer of one program.
fn run(program: &[sock_filter], call: &Call) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => accumulator = call.word(k),
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(accumulator == k),
            0x25 => at += jump(accumulator > k),
            0x35 => at += jump(accumulator >= k),
            0x06 => return k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

impl Filters {
    /// The stricter answer of both programs.
    fn answer(&self, call: &Call) -> u32 {
        let answers = self.0.iter().map(|program| run(program, call));
        // The kernel compares actions as signed numbers: to kill is less than all others.
        answers.min_by_key(|answer| answer.cast_signed()).unwrap()
    }

    fn call(&self, number: i64, first: &[u64]) -> u32 {
        let mut arguments = [0; 6];
        arguments[..first.len()].copy_from_slice(first);
        self.answer(&Call {
            number,
            architecture: OURS,
            arguments,
        })
    }
}

fn broker() -> Filters {
    let profile = Profile::default()
        .path("/tmp", Rights::Write)
        .sockets(SocketFamily::Unix);
    Filters::of(&profile).unwrap()
}

fn cluster() -> Filters {
    let profile = Profile::default()
        .sockets(SocketFamily::Unix)
        .sockets(SocketFamily::Inet)
        .sockets(SocketFamily::Inet6);
    Filters::of(&profile).unwrap()
}

fn mirror() -> Filters {
    let profile = Profile::default().sockets(SocketFamily::Unix).drivers();
    Filters::of(&profile).unwrap()
}

const DANGEROUS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_chdir,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_personality,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_mknodat,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_vmsplice,
    libc::SYS_splice,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_pkey_mprotect,
    libc::SYS_remap_file_pages,
    libc::SYS_memfd_secret,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_setrlimit,
    libc::SYS_setxattr,
];

#[test]
fn no_process_may_make_a_dangerous_call() {
    for filters in [broker(), cluster(), mirror()] {
        for &call in DANGEROUS {
            if call == libc::SYS_tkill && cfg!(target_env = "musl") {
                continue;
            }
            assert_eq!(filters.call(call, &[]), errno(Errno::EPERM), "call {call}");
        }
    }
}

#[test]
fn a_call_that_is_newer_than_the_list_is_not_implemented() {
    for filters in [broker(), cluster(), mirror()] {
        assert_eq!(filters.call(libc::SYS_clone3, &[]), errno(Errno::ENOSYS));
        assert_eq!(filters.call(511, &[]), errno(Errno::ENOSYS));
    }
}

#[test]
fn sockets_are_of_permitted_families() {
    let (unix, inet, inet6) = (libc::AF_UNIX, libc::AF_INET, libc::AF_INET6);
    let others = [
        libc::AF_NETLINK,
        libc::AF_PACKET,
        libc::AF_VSOCK,
        libc::AF_ALG,
    ];
    let socket = |filters: &Filters, family: i32| filters.call(libc::SYS_socket, &[family as u64]);
    for filters in [broker(), mirror()] {
        assert_eq!(socket(&filters, unix), ALLOW);
        for family in [inet, inet6].into_iter().chain(others) {
            assert_eq!(socket(&filters, family), errno(Errno::EPERM), "{family}");
        }
    }
    for family in [unix, inet, inet6] {
        assert_eq!(socket(&cluster(), family), ALLOW);
    }
    for family in others {
        assert_eq!(socket(&cluster(), family), errno(Errno::EPERM), "{family}");
    }
    // The kernel ignores the upper half of the family.
    let padded = 1 << 32 | inet as u64;
    assert_eq!(
        broker().call(libc::SYS_socket, &[padded]),
        errno(Errno::EPERM)
    );
    let none = Filters::of(&Profile::default()).unwrap();
    assert_eq!(socket(&none, unix), errno(Errno::EPERM));
}

#[test]
fn threads_are_made_and_neither_processes_nor_namespaces() {
    let clone = |flags: i32| broker().call(libc::SYS_clone, &[flags as u64]);
    // As glibc and musl make threads.
    let thread = 0x003d_0f00;
    assert_eq!(clone(thread), ALLOW);
    assert_eq!(clone(0x007d_0f00), ALLOW);
    assert_eq!(clone(libc::SIGCHLD), errno(Errno::EPERM));
    assert_eq!(
        clone(libc::CLONE_VM | libc::CLONE_VFORK),
        errno(Errno::EPERM)
    );
    for namespace in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET] {
        assert_eq!(clone(thread | namespace), errno(Errno::EPERM));
    }
}

#[test]
fn signals_and_limits_are_for_the_process_itself() {
    let pid = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        assert_eq!(broker().call(call, &[pid, 9]), ALLOW);
        assert_eq!(broker().call(call, &[pid + 1, 9]), errno(Errno::EPERM));
        // All processes, and the group.
        assert_eq!(broker().call(call, &[u64::MAX, 9]), errno(Errno::EPERM));
        assert_eq!(broker().call(call, &[0, 9]), errno(Errno::EPERM));
    }
    assert_eq!(broker().call(libc::SYS_prlimit64, &[0]), ALLOW);
    assert_eq!(
        broker().call(libc::SYS_prlimit64, &[pid + 1]),
        errno(Errno::EPERM)
    );
}

#[test]
#[allow(clippy::unnecessary_cast, reason = "musl has other types")]
fn only_drivers_make_code_and_command_devices() {
    let executable = [0, 4096, (libc::PROT_READ | libc::PROT_EXEC) as u64];
    let readable = [0, 4096, (libc::PROT_READ | libc::PROT_WRITE) as u64];
    // NVIDIA's first command, as any other of a device.
    let command = [3, 0xc020_462a];
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        for filters in [broker(), cluster(), mirror()] {
            assert_eq!(filters.call(call, &readable), ALLOW);
        }
        for filters in [broker(), cluster()] {
            assert_eq!(filters.call(call, &executable), errno(Errno::EPERM));
        }
        assert_eq!(mirror().call(call, &executable), ALLOW);
    }
    assert_eq!(
        broker().call(libc::SYS_ioctl, &command),
        errno(Errno::EPERM)
    );
    assert_eq!(
        broker().call(libc::SYS_ioctl, &[3, libc::FIONBIO as u64]),
        ALLOW
    );
    assert_eq!(mirror().call(libc::SYS_ioctl, &command), ALLOW);
    // A terminal's input is not to be forged.
    assert_eq!(
        broker().call(libc::SYS_ioctl, &[0, libc::TIOCSTI as u64]),
        errno(Errno::EPERM)
    );
}

#[test]
fn a_call_of_another_architecture_is_the_end() {
    let call = Call {
        number: libc::SYS_read,
        architecture: I386,
        arguments: [0; 6],
    };
    assert_eq!(broker().answer(&call), KILL);
    // x32 has the architecture of x86-64, and a bit in each number.
    #[cfg(target_arch = "x86_64")]
    assert_eq!(
        broker().call(libc::SYS_read | 0x4000_0000, &[]),
        errno(Errno::EPERM)
    );
}
