//! The model, the store and the files that the benchmarks share.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::mount::{MsFlags, mount, umount};
use tempfile::TempDir;
use tetris_agent::{Agent, CreateOptions, Store};
use tetris_density::synthetic::{self, transformer};
use tetris_density::system::machine::{self, Machine};
use tetris_density::system::memory;
use tetris_density::system::store::StorePlace;

const SEED: u64 = 1;

/// Everything that the benchmarks share, removed on drop with its mounts.
pub struct Fixture {
    /// The model file, on disk, and in the page cache as after reading it.
    pub file: PathBuf,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// An agent on a store with the model.
    pub agent: Agent,
    /// The same file on a tmpfs with 4 KiB pages, if one could be mounted.
    pub small_pages: Option<PathBuf>,
    place: StorePlace,
    _small_mount: Option<SmallPages>,
    work: TempDir,
}

struct SmallPages(PathBuf);

impl Drop for SmallPages {
    fn drop(&mut self) {
        let _ = umount(&self.0);
    }
}

impl Fixture {
    pub fn new() -> Result<Self> {
        let work = tempfile::tempdir().context("cannot make a work directory")?;
        // About 1.3 GB, 389 tensors; a quarter on machines with little memory.
        let layers = if memory::total()? >= 12 << 30 { 24 } else { 6 };
        let model = transformer::bert("bench", 1024, layers, 4096, 30_522);
        let file = work.path().join("model.safetensors");
        synthetic::write(&model, SEED, &file)?;
        read_in(&file)?;
        let bytes = file.metadata()?.len();
        let place = StorePlace::create(work.path(), 3 * bytes)?;
        let store = Store::create(place.path().join("store"), &CreateOptions::default())?;
        let agent = Agent::with_store(store);
        agent.load(&file)?;
        let (small_pages, small_mount) = small_pages(work.path(), &file, bytes).unzip();
        Ok(Self {
            file,
            bytes,
            agent,
            small_pages,
            place,
            _small_mount: small_mount,
            work,
        })
    }

    /// A directory on the store's file system, for a second store or a copy.
    pub fn beside_store(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A directory on disk.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    pub fn store(&self) -> Result<&Store> {
        self.agent
            .store()
            .context("the fixture's agent has a store")
    }

    pub fn description(&self) -> Result<String> {
        let objects = self.store()?.objects()?.objects.len();
        Ok(format!(
            "{}\nload average {:.2}; store: {}; model: {:.2} GB in {objects} objects; seed {SEED}",
            Machine::inspect()?.line(),
            machine::load_average(),
            self.place.description(),
            self.bytes as f64 / 1e9,
        ))
    }
}

/// Reads a file into the page cache in large folios, where the file system has them. Pages created
/// by small writes stay small as long as they are cached.
fn read_in(path: &Path) -> Result<()> {
    let mut file = File::open(path)?;
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

/// A copy on a tmpfs with `huge=never`, like `/dev/shm` on most machines.
fn small_pages(work: &Path, file: &Path, bytes: u64) -> Option<(PathBuf, SmallPages)> {
    let directory = work.join("small-pages");
    std::fs::create_dir(&directory).ok()?;
    let options = format!("size={},huge=never", bytes + (64 << 20));
    let none: Option<&str> = None;
    mount(
        none,
        &directory,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
    .ok()?;
    let mounted = SmallPages(directory.clone());
    let copy = directory.join("model.safetensors");
    std::fs::copy(file, &copy).ok()?;
    Some((copy, mounted))
}
