//! A harness without threads, with the arguments of the standard one.

use std::env;
use std::fs;
use std::io::Write as _;
use std::process::{Command, ExitCode};

use crate::{Ground, Test};

/// The variable with the name of the test that this process is, and the one with its directory.
const TEST: &str = "TETRIS_SANDBOX_TEST";
const GROUND: &str = "TETRIS_SANDBOX_GROUND";
/// Arguments of the standard harness that have a value.
const WITH_VALUE: [&str; 5] = ["--format", "--test-threads", "--color", "--skip", "-Z"];

/// Reports that a test is left out and why.
pub fn skipped(test: &str, reason: &str) {
    say(&format!("SKIPPED: {test}: {reason}"));
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Is a test, or runs those that the arguments name.
pub fn main(tests: &[Test]) -> ExitCode {
    if let (Ok(name), Some(ground)) = (env::var(TEST), env::var_os(GROUND)) {
        let (_, test) = tests.iter().find(|(known, _)| *known == name).unwrap();
        test(&Ground(ground.into()));
        return ExitCode::SUCCESS;
    }
    let (mut exact, mut list, mut ignored) = (false, false, false);
    let mut filters = Vec::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--exact" => exact = true,
            "--list" => list = true,
            "--ignored" => ignored = true,
            with_value if WITH_VALUE.contains(&with_value) => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    let chosen = tests.iter().filter(|(name, _)| {
        let matches = |filter: &String| name == filter || !exact && name.contains(filter.as_str());
        // No test is ignored.
        !ignored && (filters.is_empty() || filters.iter().any(matches))
    });
    let mut failed = 0;
    for (name, _) in chosen {
        let mut out = std::io::stdout().lock();
        if list {
            let _ = writeln!(out, "{name}: test");
            continue;
        }
        let passed = passes(name);
        failed += u32::from(!passed);
        let _ = writeln!(
            out,
            "test {name} ... {}",
            if passed { "ok" } else { "FAILED" }
        );
    }
    ExitCode::from(u8::from(failed > 0) * 101)
}

/// Runs a test in its own process.
fn passes(name: &str) -> bool {
    let ground = tempfile::tempdir_in("/dev/shm").unwrap();
    let files = Ground(ground.path().to_owned());
    fs::create_dir(files.store()).unwrap();
    fs::create_dir(files.other()).unwrap();
    fs::write(files.secret(), "secret").unwrap();
    let ended = Command::new(env::current_exe().unwrap())
        .envs([(TEST, name)])
        .env(GROUND, ground.path())
        .status()
        .unwrap();
    if !ended.success() {
        say(&format!("{name}: {ended}"));
    }
    ended.success()
}
