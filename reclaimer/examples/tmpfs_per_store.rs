//! One tmpfs for all stores of a node beside one for each store: what 64 of them cost, what becomes
//! of memory that one tenant does not use, and what happens at the limit.
//!
//! `cargo run -p tetris-node --example tmpfs_per_store`, as root; `-- STORES` for another
//! number. It works in its own mount namespace and leaves nothing behind. docs/decisions.md has
//! the decision that rests on it.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::statvfs;
use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, OpenTreeFlags, mount_bind, mount_change, mount_remount,
    open_tree,
};
use tetris_store_layout::{CreateOptions, Store};
use tetris_test_support::stats;

const MIB: u64 = 1 << 20;
/// Memory of all stores together.
const CAPACITY: u64 = 1024 * MIB;
const ROUNDS: u32 = 20;

/// One of the two arrangements, with its stores.
struct Arrangement {
    name: &'static str,
    stores: Vec<PathBuf>,
    /// Mount points whose options change.
    mounts: Vec<PathBuf>,
    made: Duration,
    kernel_kib: i64,
}

fn main() -> Result<()> {
    let stores: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().context("expected a number of stores")?,
        None => 64,
    };
    ensure!(nix::unistd::geteuid().is_root(), "expected root, to mount");
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let dir = tempfile::tempdir()?;
    let bare = publish(dir.path())?;
    let single = one_for_all(&dir.path().join("one"), stores)?;
    let shared = report(&single)?;
    let separated = one_for_each(&dir.path().join("each"), stores)?;
    let rebalanced = rebalance(&separated)?;
    let separate = report(&separated)?;
    println!("{stores} stores, {} MiB in all", CAPACITY / MIB);
    println!("{:<58} {:>12} {:>12}", "", "one for all", "one each");
    for ((what, shared), (_, separate)) in shared.iter().zip(&separate) {
        println!("{what:<58} {shared:>12} {separate:>12}");
    }
    println!(
        "a read-only mount for a pod, before either was there: {}",
        shown(bare)
    );
    for line in rebalanced {
        println!("{line}");
    }
    Ok(())
}

fn tmpfs(path: &Path, bytes: u64) -> Result<()> {
    fs::create_dir_all(path)?;
    let options = format!("size={bytes},nr_inodes=65536,huge=within_size,mode=0755");
    let kind = Some("tmpfs");
    mount(kind, path, kind, MsFlags::empty(), Some(options.as_str()))?;
    Ok(())
}

fn one_for_all(root: &Path, stores: usize) -> Result<Arrangement> {
    let paths: Vec<_> = (0..stores).map(|n| root.join(n.to_string())).collect();
    arrange("one tmpfs", paths, vec![root.to_owned()], |_| {
        tmpfs(root, CAPACITY)
    })
}

fn one_for_each(root: &Path, stores: usize) -> Result<Arrangement> {
    let paths: Vec<_> = (0..stores).map(|n| root.join(n.to_string())).collect();
    arrange("one tmpfs each", paths.clone(), paths, |mounts| {
        let share = CAPACITY / stores as u64;
        mounts.iter().try_for_each(|path| tmpfs(path, share))
    })
}

fn arrange(
    name: &'static str,
    stores: Vec<PathBuf>,
    mounts: Vec<PathBuf>,
    mount_all: impl FnOnce(&[PathBuf]) -> Result<()>,
) -> Result<Arrangement> {
    let before = kernel_kib()?;
    let begun = Instant::now();
    mount_all(&mounts)?;
    let made = begun.elapsed();
    let kernel_kib = kernel_kib()? - before;
    for store in &stores {
        Store::create(store, &CreateOptions::default())?;
    }
    Ok(Arrangement {
        name,
        stores,
        mounts,
        made,
        kernel_kib,
    })
}

/// Slab and memory of each processor, in KiB.
fn kernel_kib() -> Result<i64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let of = |name: &str| -> i64 {
        let line = text.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Ok(of("Slab:") + of("Percpu:"))
}

/// Mounts `dir` read-only and detached, as the CSI driver does for each pod.
fn publish(dir: &Path) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let dir = dir.to_owned();
        let begun = Instant::now();
        let made = std::thread::spawn(move || -> Result<()> {
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount_change(
                "/",
                MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
            )?;
            mount_bind(&dir, &dir)?;
            mount_remount(&dir, MountFlags::BIND | MountFlags::RDONLY, "")?;
            drop(open_tree(CWD, &dir, OpenTreeFlags::OPEN_TREE_CLONE)?);
            Ok(())
        });
        made.join().ok().context("the thread panicked")??;
        times.push(begun.elapsed());
    }
    Ok(median(&times))
}

fn median(times: &[Duration]) -> Duration {
    let seconds: Vec<_> = times.iter().map(Duration::as_secs_f64).collect();
    Duration::from_secs_f64(stats::median(&seconds).unwrap_or_default())
}

fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Times of looks at all stores, and of the work for a pod.
fn report(of: &Arrangement) -> Result<Vec<(&'static str, String)>> {
    let first = of.stores.first().context("no stores")?;
    let room = timed(|| {
        of.mounts.iter().try_for_each(|path| {
            statvfs(path)?;
            Ok(())
        })
    })?;
    let mountinfo = timed(|| {
        fs::read("/proc/self/mountinfo")?;
        Ok(())
    })?;
    let begun = Instant::now();
    let mut large = 0;
    for store in of.mounts.iter().filter_map(|mount| {
        let mut stores = of.stores.iter();
        stores.find(|store| store.starts_with(mount))
    }) {
        let pages = Store::open(store)?.probe_pages()?;
        large += u64::from(pages.is_some_and(|pages| pages.small_because.is_none()));
    }
    let probe = begun.elapsed();
    let (filled, left) = fill(of)?;
    Ok(vec![
        ("mounting", shown(of.made)),
        (
            "memory of the kernel, slab and percpu",
            format!("{} KiB", of.kernel_kib),
        ),
        ("asking for the room of all mounts (each pass)", shown(room)),
        ("reading mountinfo", shown(mountinfo)),
        ("a read-only mount for a pod", shown(publish(first)?)),
        ("finding out the pages of each mount", shown(probe)),
        ("mounts that give 2 MiB pages", large.to_string()),
        (
            "one tenant writes until the kernel refuses",
            format!("{} MiB", filled / MIB),
        ),
        ("room of another then", format!("{} MiB", left / MIB)),
    ])
}

fn timed(mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed());
    }
    Ok(median(&times))
}

/// Fills the first store until the kernel refuses. Returns its bytes, and the room of the last one.
fn fill(of: &Arrangement) -> Result<(u64, u64)> {
    let (Some(first), Some(last)) = (of.stores.first(), of.stores.last()) else {
        return Ok((0, 0));
    };
    let path = first.join("filler");
    let filled = write_until_refused(&path)?;
    let room = statvfs(last)?;
    let left = room.blocks_available() * room.fragment_size();
    fs::remove_file(path)?;
    ensure!(filled > 0, "{}: nothing could be written", of.name);
    Ok((filled, left))
}

fn write_until_refused(path: &Path) -> Result<u64> {
    let (mut file, piece) = (File::create(path)?, vec![1; MIB as usize]);
    let mut written = 0;
    loop {
        match file.write(&piece) {
            Ok(bytes) if bytes > 0 => written += bytes as u64,
            _ => return Ok(written),
        }
    }
}

/// Gives one tenant the memory of the others, while all are in use, and takes it back.
fn rebalance(each: &Arrangement) -> Result<Vec<String>> {
    let share = CAPACITY / each.mounts.len() as u64;
    let Some((first, others)) = each.mounts.split_first() else {
        return Ok(Vec::new());
    };
    let in_use = share / 4 / 4096 * 4096;
    for path in &each.mounts {
        fs::write(path.join("in use"), vec![1; in_use as usize])?;
    }
    let resize = |path: &Path, bytes: u64| {
        let options = format!("size={bytes}");
        let flags = MsFlags::MS_REMOUNT;
        mount(
            None::<&str>,
            path,
            None::<&str>,
            flags,
            Some(options.as_str()),
        )
    };
    let begun = Instant::now();
    for path in others {
        resize(path, in_use + MIB)?;
    }
    let shrunk = begun.elapsed();
    let begun = Instant::now();
    resize(first, CAPACITY - others.len() as u64 * (in_use + MIB))?;
    let grown = begun.elapsed();
    let taken = write_until_refused(&first.join("taken"))?;
    // The tenant that took it may map it. Then no one gets it back.
    let back = resize(first, share);
    let below = others.first().map(|path| resize(path, in_use / 2));
    fs::remove_file(first.join("taken"))?;
    resize(first, share)?;
    let begun = Instant::now();
    for path in others {
        resize(path, share)?;
    }
    let again = begun.elapsed();
    for path in &each.mounts {
        fs::remove_file(path.join("in use"))?;
    }
    let said = |result: nix::Result<()>| match result {
        Ok(()) => "works".to_owned(),
        Err(error) => format!("is refused: {error}"),
    };
    Ok(vec![
        format!(
            "one each: shrinking {} mounts in use takes {}, growing one of them {}; it can then have {} MiB more",
            others.len(),
            shown(shrunk),
            shown(grown),
            taken / MIB
        ),
        format!(
            "one each: shrinking below what is in use {}, for another {}; giving all back takes {}",
            said(back),
            below.map_or_else(String::new, said),
            shown(again)
        ),
    ])
}
