//! System calls permitted with some arguments alone.

use nix::libc;
use seccompiler::{
    BackendError, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompRule,
};

use crate::profile::{Profile, SocketFamily};

/// Flags of a thread in this process: shared memory and one process.
const THREAD: i32 = libc::CLONE_VM | libc::CLONE_THREAD;
/// Flags that make namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Commands to descriptors that every process gives: blocking or not, closed at exec or not, the number
/// of readable bytes, and terminal or not.
#[allow(clippy::unnecessary_cast, reason = "musl has other types")]
const IOCTLS: [u64; 5] = [
    libc::FIONBIO as u64,
    libc::FIOCLEX as u64,
    libc::FIONREAD as u64,
    libc::TCGETS as u64,
    libc::TIOCGWINSZ as u64,
];

/// Options of prctl(2): the names of threads, and questions for capabilities.
const PRCTLS: [i32; 5] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_READ,
];

type Rules = Vec<(i64, Vec<SeccompRule>)>;

/// Permitted calls with the arguments that they may have. An empty list permits all arguments.
///
/// `process` is the number of this process.
pub(super) fn permitted(profile: &Profile, process: u32) -> Result<Rules, BackendError> {
    let is_ours = || Ok::<_, BackendError>(vec![is(0, process.into())?]);
    let ourselves = || Ok::<_, BackendError>(vec![is(0, 0)?, is(0, process.into())?]);
    let mut sockets = Vec::new();
    for family in &profile.sockets {
        sockets.push(family.rule()?);
    }
    let mut rules = vec![
        (libc::SYS_kill, is_ours()?),
        (libc::SYS_tgkill, is_ours()?),
        (libc::SYS_prlimit64, ourselves()?),
        (libc::SYS_clone, vec![thread()?]),
        (
            libc::SYS_prctl,
            any_of(0, PRCTLS.map(|option| option as u64))?,
        ),
    ];
    // A call without any permitted argument is left out: an empty list would permit all.
    if !sockets.is_empty() {
        rules.push((libc::SYS_socket, sockets));
    }
    if profile.sockets.contains(&SocketFamily::Unix) {
        rules.push((libc::SYS_socketpair, vec![SocketFamily::Unix.rule()?]));
    }
    let without_code = || -> Result<_, BackendError> {
        let executable = libc::PROT_EXEC as u64;
        let op = Op::MaskedEq(executable);
        let rule = SeccompRule::new(vec![SeccompCondition::new(2, Len::Dword, op, 0)?])?;
        Ok(vec![rule])
    };
    if profile.drivers {
        let calls = [libc::SYS_ioctl, libc::SYS_mmap, libc::SYS_mprotect];
        rules.extend(calls.map(|call| (call, Vec::new())));
    } else {
        rules.push((libc::SYS_ioctl, any_of(1, IOCTLS)?));
        rules.push((libc::SYS_mmap, without_code()?));
        rules.push((libc::SYS_mprotect, without_code()?));
    }
    Ok(rules)
}

impl SocketFamily {
    fn rule(self) -> Result<SeccompRule, BackendError> {
        let domain = match self {
            Self::Unix => libc::AF_UNIX,
            Self::Inet => libc::AF_INET,
            Self::Inet6 => libc::AF_INET6,
        };
        is(0, domain as u64)
    }
}

/// A thread of this process, in its namespaces.
fn thread() -> Result<SeccompRule, BackendError> {
    let (looked_at, expected) = ((THREAD | NAMESPACES) as u64, THREAD as u64);
    let condition = SeccompCondition::new(0, Len::Dword, Op::MaskedEq(looked_at), expected)?;
    SeccompRule::new(vec![condition])
}

/// The argument at `index` has one of `values`.
fn any_of<const N: usize>(index: u8, values: [u64; N]) -> Result<Vec<SeccompRule>, BackendError> {
    values.into_iter().map(|value| is(index, value)).collect()
}

/// The argument at `index` has `value`.
fn is(index: u8, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![equal(index, value)?])
}

/// The lower half of the argument is `value`: the kernel takes these arguments as 32 bits.
fn equal(index: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, Len::Dword, Op::Eq, value)
}
