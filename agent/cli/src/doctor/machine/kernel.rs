//! Features of the kernel (LAYOUT.md 9).

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tetris_store_layout::Holders;

use super::unknown;
use crate::doctor::check::Check;

/// Oldest supported release. The tests run on 6.1 and later.
const OLDEST: (u32, u32) = (5, 8);
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Release of the kernel.
pub(super) fn release() -> Check {
    match std::fs::read_to_string(RELEASE) {
        Ok(text) => of_release(text.trim()),
        Err(error) => unknown("kernel", error),
    }
}

fn of_release(text: &str) -> Check {
    let check = match parse_release(text) {
        Some(version) if version >= OLDEST => Check::ok("kernel", format!("Linux {text}")),
        Some(_) => Check::failure("kernel", format!("Linux {text}"))
            .expected(format_args!("Linux {}.{} or later", OLDEST.0, OLDEST.1)),
        None => Check::note(
            "kernel",
            format!("its release `{text}` is no version number"),
        ),
    };
    check.fact("release", text)
}

/// Major and minor number of `6.1.0-13-amd64`.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Open-file-description locks, which are the references (LAYOUT.md 4): taken on this program's own
/// file for a moment.
pub(super) fn locks() -> Check {
    let file = match File::open("/proc/self/exe") {
        Ok(file) => file,
        Err(error) => return unknown("locks", error),
    };
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)) {
        // Someone else writes to the file, which is no fault of the kernel's.
        Ok(_) | Err(Errno::EAGAIN | Errno::EACCES) => {
            Check::ok("locks", "open-file-description locks work (F_OFD_SETLK)")
        }
        Err(error) => Check::failure("locks", format!("F_OFD_SETLK: {error}"))
            .expected("open-file-description locks, without which nothing is referenced")
            .remedy("run on a Linux kernel itself: emulations of one such as gVisor have none"),
    }
}

/// `/proc`, through which unnamed files get their names (LAYOUT.md 5.1, P7).
pub(super) fn unnamed_files() -> Check {
    if Path::new("/proc/self/fd").is_dir() {
        return Check::ok(
            "proc",
            "objects get their names through /proc/self/fd (linkat)",
        );
    }
    Check::warning(
        "proc",
        "/proc is not mounted: publishing needs Linux 6.10 or privileges",
    )
    .expected("/proc, through which objects get their names")
    .remedy("run `sudo mount -t proc proc /proc`")
}

/// The kernel's list of locks, by which holders are counted.
pub(super) fn holders() -> Check {
    match Holders::read() {
        Ok(holders) if holders.is_complete() => {
            Check::ok("holders", "/proc/locks lists references of all processes")
        }
        Ok(_) => Check::note(
            "holders",
            format!(
                "/proc/locks has more than {} locks; the rest is not counted, so numbers of holders and savings are too low",
                Holders::MAX_LINES
            ),
        )
        .remedy("run `lslocks` to see the processes with many locks"),
        Err(error) => Check::warning("holders", error.to_string())
            .expected("/proc/locks, from which holders and savings are counted")
            .remedy("mount /proc without restrictions (hidepid, subset=pid)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn releases_are_compared_as_numbers() {
        for (text, status) in [
            ("6.1.0-13-amd64", Status::Ok),
            ("5.8.0", Status::Ok),
            ("5.10", Status::Ok),
            ("4.19.0", Status::Failure),
            ("5.7.99-custom", Status::Failure),
            ("next", Status::Note),
            ("6", Status::Note),
            ("99999999999.1", Status::Note),
        ] {
            assert_eq!(of_release(text).status, status, "{text}");
        }
    }

    #[test]
    fn this_kernel_has_locks() {
        assert_eq!(locks().status, Status::Ok);
    }
}
