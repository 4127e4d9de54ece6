//! Reading a model through `tetris mount`, beside a copy of it in tmpfs.
//!
//! `cargo bench -p tetris-cli --bench mount`, as root; `-- --mib N` sets the size of the model (1,024), `-- --rounds N`
//! the number of rounds (5), `-- --json FILE` writes the results to a file too. Needs room for five copies of the model in
//! memory.
//!
//! Files take turns. Each is read in pieces of 1 MiB. Page cache is the whole machine's, without tmpfs, before the file is closed and 0.3 s after.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tetris_test_support::models::{bytes, write_f32};

const MIB: usize = 1 << 20;
/// Bytes of a tensor.
const TENSOR: usize = 32 * MIB;
/// Time after which a closed file's page cache is free.
const CLOSED: Duration = Duration::from_millis(300);

/// One look at a file.
struct Look {
    rate: f64,
    cache_open: i64,
    cache_closed: i64,
}

fn main() {
    let (mut mib, mut rounds, mut json) = (1024, 5, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = |or| args.next().and_then(|text| text.parse().ok()).unwrap_or(or);
        match arg.as_str() {
            "--mib" => mib = number(mib).max(64),
            "--rounds" => rounds = number(rounds).max(1),
            "--json" => json = args.next(),
            _ => {}
        }
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    let mounted = Mounted::new(dir.path(), mib);
    let files = [
        ("copy in tmpfs", mounted.source.join("model.safetensors")),
        (
            "mounted safetensors",
            mounted.path.join("model.safetensors"),
        ),
        ("mounted single object", mounted.path.join("model.gguf")),
    ];
    let mut looks = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for ((_, path), looks) in files.iter().zip(&mut looks) {
            looks.push(Look::at(path));
        }
    }
    println!(
        "{:<22} {:>10} {:>20} {:>10}",
        "", "GB/s", "page cache, open", "closed"
    );
    let mut rows = Vec::new();
    for ((name, _), mut looks) in files.iter().zip(looks) {
        looks.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let look = &looks[looks.len() / 2];
        let (open, closed) = (look.cache_open >> 20, look.cache_closed >> 20);
        println!(
            "{name:<22} {:>10.2} {open:>16} MiB {closed:>6} MiB",
            look.rate
        );
        rows.push(json!({
            "file": name,
            "gb_per_s": look.rate,
            "cache_open_bytes": look.cache_open,
            "cache_closed_bytes": look.cache_closed,
        }));
    }
    if let Some(path) = json {
        let report = json!({ "bytes": mib * MIB, "rounds": rounds, "rows": rows });
        std::fs::write(&path, format!("{report:#}\n"))
            .unwrap_or_else(|error| panic!("cannot write `{path}`: {error}"));
    }
}

impl Look {
    /// Reads a file to its end.
    fn at(path: &Path) -> Self {
        let before = page_cache();
        let begun = Instant::now();
        let mut file = File::open(path).expect("the file");
        let len = read(&mut file);
        let rate = len as f64 / begun.elapsed().as_secs_f64() / 1e9;
        let cache_open = page_cache() - before;
        drop(file);
        std::thread::sleep(CLOSED);
        Self {
            rate,
            cache_open,
            cache_closed: page_cache() - before,
        }
    }
}

fn read(file: &mut File) -> usize {
    let mut buffer = vec![0; MIB];
    let mut len = 0;
    loop {
        match file.read(&mut buffer).expect("bytes") {
            0 => return len,
            more => len += more,
        }
    }
}

/// Bytes of page cache, without those of tmpfs.
fn page_cache() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let of = |name: &str| -> i64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<i64>().ok());
        kib.expect("a number") * 1024
    };
    of("Cached:") - of("Shmem:")
}

/// A model in a store, mounted.
struct Mounted {
    source: PathBuf,
    path: PathBuf,
    command: Child,
}

impl Mounted {
    fn new(dir: &Path, mib: usize) -> Self {
        let (source, path, store) = (dir.join("source"), dir.join("mnt"), dir.join("store"));
        for folder in [&source, &path] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let model: Vec<_> = (0..mib * MIB / TENSOR)
            .map(|index| (format!("layer.{index:03}"), bytes(index as u64, TENSOR)))
            .collect();
        write_f32(&source.join("model.safetensors"), &model);
        std::fs::write(source.join("model.gguf"), bytes(9, mib * MIB)).expect("a file");
        let options = tetris_agent::CreateOptions::default();
        tetris_agent::Store::create(&store, &options).expect("a store");
        let tetris = || {
            let mut tetris = Command::new(env!("CARGO_BIN_EXE_tetris"));
            tetris.arg("--store").arg(&store);
            tetris
        };
        let pulled = tetris()
            .arg("pull")
            .arg(&source)
            .args(["--include", "*"])
            .output();
        let pulled = pulled.expect("a pull");
        assert!(pulled.status.success(), "{pulled:?}");
        let mut mount = tetris();
        let mount = mount
            .args(["mount", "--format", "json"])
            .arg(&source)
            .arg(&path);
        let mut command = mount.stdout(Stdio::piped()).spawn().expect("a mount");
        let stdout = command.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.contains("mnt"), "it is not mounted: {line}");
        Self {
            source,
            path,
            command,
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ended = Command::new("umount").arg(&self.path).status();
        let _ended = self.command.wait();
    }
}
