//! Two processes that load one model, and how many copies of it there are.
//!
//! `cargo run -p tetris-agent --example two_processes -- model.safetensors`
//!
//! The program starts itself a second time. `Pss` of a mapping divides each page by the number of processes that
//! have it, so over all processes it adds up to one copy.

#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::error::Error;
use std::ffi::OsString;
use std::io::Read as _;
use std::process::{Command, Stdio};

use tetris_agent::{Agent, Model};

/// Argument of the second process.
const SECOND: &str = "second";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [path, rest @ ..] = &arguments[..] else {
        return Err("expected the path of a model".into());
    };
    let agent = Agent::from_env();
    if let Some(reason) = agent.unavailable() {
        return Err(format!("no store: {reason}").into());
    }
    let model = agent.load(path)?;
    let sum = touch(&model);
    if rest.first().is_some_and(|word| word == SECOND) {
        // The first process looks at its own share while this one has the model mapped, and then closes its end.
        println!("{sum}");
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let alone = share_of_store(&agent)?;
    let mut second = Command::new(std::env::current_exe()?)
        .arg(path)
        .arg(SECOND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = [0];
    let mut stdout = second.stdout.take().ok_or("no output")?;
    while stdout.read(&mut line)? == 1 && line != *b"\n" {}
    let together = share_of_store(&agent)?;
    drop(second.stdin.take());
    second.wait()?;
    println!("this process alone: {alone} KiB of the store; beside another: {together} KiB");
    Ok(())
}

/// Reads a byte of each page, so that the process has all of them.
fn touch(model: &Model) -> u64 {
    let tensors = model.tensors();
    tensors
        .flat_map(|tensor| tensor.bytes().iter().step_by(4096))
        .map(|byte| u64::from(*byte))
        .sum()
}

/// `Pss` of all mappings of the store's objects, in KiB.
fn share_of_store(agent: &Agent) -> Result<u64, Box<dyn Error>> {
    let objects = agent.store().ok_or("no store")?.objects_dir();
    let objects = objects.to_string_lossy().into_owned();
    let mut is_object = false;
    let mut sum = 0;
    for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
        if let Some(value) = line.strip_prefix("Pss:") {
            if is_object {
                sum += value.trim().trim_end_matches(" kB").parse::<u64>()?;
            }
        } else if line.contains('-') && line.contains(' ') && !line.contains("kB") {
            is_object = line.contains(&objects);
        }
    }
    Ok(sum)
}
