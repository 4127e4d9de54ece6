//! A reference of another process, which SIGKILL ends.
//!
//! `cargo run -p tetris-store-layout --example references -- /dev/shm/example-store`
//!
//! One process publishes an object, and another one maps it. While the other runs, the object cannot be
//! reclaimed; once it is killed, the kernel has dropped its lock, and the object can be.

#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tetris_store_layout::{Access, CreateOptions, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or("expected a folder on a tmpfs")?;
    match arguments.next() {
        Some(object) => hold(folder.as_ref(), &object.to_string_lossy()),
        None => publish_and_reclaim(folder.as_ref()),
    }
}

fn publish_and_reclaim(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let store = Store::create(folder, &CreateOptions::default())?;
    let published = store.publish(&vec![7; 1 << 20], Access::ReadOnly)?;
    let object = published.object;
    let mut other = Command::new(std::env::current_exe()?)
        .arg(folder)
        .arg(object.file_name())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut told = String::new();
    BufReader::new(other.stdout.take().ok_or("no output")?).read_line(&mut told)?;
    // Only the other process maps it now.
    drop(published.mapping);
    println!("mapped by another process: {:?}", store.reclaim(&object)?);
    other.kill()?;
    other.wait()?;
    println!("after its SIGKILL: {:?}", store.reclaim(&object)?);
    Ok(())
}

/// Maps an object until this process is killed.
fn hold(folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let store = Store::open(folder)?;
    let object = store.find(name).ok_or("no such object")?;
    let mapping = store.map(&object, Access::ReadOnly)?.ok_or("reclaimed")?;
    println!("mapped {} bytes", mapping.len());
    loop {
        std::thread::park();
    }
}
