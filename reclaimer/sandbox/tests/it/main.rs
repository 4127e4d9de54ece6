//! Processes in sandboxes: permitted work goes on, and the rest fails.
//!
//! Each test is this program once more, with the test's name in a variable. Its only thread enters a sandbox and
//! tries things, and the exit of the process shows if all went as expected.

mod harness;
mod permitted;
mod refused;
mod status;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tetris_sandbox::{Profile, Rights, SandboxStatus, SocketFamily, enter};

/// A test: its name, and what the process does.
type Test = (&'static str, fn(&Ground));

/// Files of one test: `store` is permitted in most of them, `other` is not.
struct Ground(PathBuf);

impl Ground {
    fn root(&self) -> &Path {
        &self.0
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn other(&self) -> PathBuf {
        self.0.join("other")
    }

    /// A file of `other`.
    fn secret(&self) -> PathBuf {
        self.other().join("secret")
    }
}

/// A profile as the broker has it, with the store's directory alone.
fn broker(ground: &Ground) -> Profile {
    Profile::default()
        .path(ground.store(), Rights::Write)
        .sockets(SocketFamily::Unix)
}

/// Enters the sandbox of `profile`, with its filter. Returns `None`, and reports it, where the kernel has no Landlock of at
/// least version `oldest`.
fn enter_with_landlock(test: &str, profile: &Profile, oldest: u32) -> Option<SandboxStatus> {
    let status = enter(profile).unwrap();
    assert!(status.seccomp, "{status:?}");
    if status.landlock.is_none_or(|version| version < oldest) {
        harness::skipped(
            test,
            &format!("needs Landlock of version {oldest}: {status:?}"),
        );
        return None;
    }
    Some(status)
}

fn main() -> ExitCode {
    let tests = [permitted::TESTS, refused::TESTS, status::TESTS];
    harness::main(&tests.concat())
}
