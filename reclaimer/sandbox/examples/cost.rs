//! Cost of a sandbox per system call: the same calls before and after this process enters one.
//!
//! `cargo run --release -p tetris-sandbox --example cost`
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use nix::sys::signal::kill;
use nix::unistd::{getpid, getppid};
use tetris_sandbox::{Profile, Rights, SocketFamily, enter};

const ROUNDS: u32 = 30;
const CALLS: u32 = 5_000;

/// A call with the reason to look at it.
type Call<'a> = (&'static str, Box<dyn Fn() -> io::Result<()> + 'a>);

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let path = dir.path().join("object");
    fs::write(&path, "x")?;
    let file = File::open(&path)?;
    let calls = calls(&path, &file);
    let before: Vec<f64> = calls
        .iter()
        .map(|(_, call)| best(call))
        .collect::<Result<_, _>>()?;
    let profile = Profile::default()
        .path(dir.path(), Rights::Write)
        .sockets(SocketFamily::Unix);
    let began = Instant::now();
    let status = enter(&profile)?;
    let entered = began.elapsed();
    println!(
        "nanoseconds per call, best of {ROUNDS} rounds of {CALLS}; entered in {entered:?}: {status:?}"
    );
    println!("{:<52} {:>9} {:>9} {:>9}", "", "without", "with", "more");
    for ((what, call), before) in calls.iter().zip(before) {
        let after = best(call)?;
        println!(
            "{what:<52} {before:>9.0} {after:>9.0} {:>9.0}",
            after - before
        );
    }
    Ok(())
}

fn calls<'a>(path: &'a Path, file: &'a File) -> Vec<Call<'a>> {
    vec![
        (
            "getppid: permitted with any arguments",
            Box::new(|| {
                getppid();
                Ok(())
            }),
        ),
        (
            "pread of one byte: permitted with any arguments",
            Box::new(move || file.read_exact_at(&mut [0], 0)),
        ),
        (
            "kill of itself by signal 0: arguments are checked",
            Box::new(|| Ok(kill(getpid(), None)?)),
        ),
        (
            "socketpair, close, close: arguments are checked",
            Box::new(|| UnixStream::pair().map(drop)),
        ),
        (
            "open and close of a file in a store: Landlock",
            Box::new(move || File::open(path).map(drop)),
        ),
    ]
}

/// Nanoseconds per call, of the fastest round.
fn best(call: &dyn Fn() -> io::Result<()>) -> io::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Ok(best)
}
