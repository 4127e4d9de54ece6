//! A place for a tensor store: a separate tmpfs mount, or a directory on `/dev/shm`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::error::{Error, Result};
use crate::system::broker::Broker;
use crate::system::{disk, machine, memory};

const SHARED_MEMORY: &str = "/dev/shm";
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// An empty tmpfs directory, unmounted and removed on drop.
pub struct StorePlace {
    directory: PathBuf,
    mounted: bool,
    broker: Option<Broker>,
}

impl StorePlace {
    /// Creates room for `size` bytes: a mount below `workdir` if the process may mount, else a
    /// directory on `/dev/shm`.
    pub fn create(workdir: &Path, size: u64) -> Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if machine::is_root() {
            let directory = workdir.join(format!("store-{number}"));
            fs::create_dir(&directory).map_err(Error::io("create", &directory))?;
            if mount_tmpfs(&directory, size).is_ok() {
                return Ok(Self {
                    directory,
                    mounted: true,
                    broker: None,
                });
            }
            fs::remove_dir(&directory).map_err(Error::io("remove", &directory))?;
        }
        let name = format!("tetris-density-{}-{number}", std::process::id());
        let directory = Path::new(SHARED_MEMORY).join(name);
        fs::create_dir(&directory).map_err(Error::io("create", &directory))?;
        Ok(Self {
            directory,
            mounted: false,
            broker: None,
        })
    }

    /// Starts a daemon for the store in this place. From now on workers get a read-only view, and
    /// the daemon publishes for them. `program` is this executable.
    pub fn serve(&mut self, program: &Path) -> Result<()> {
        let view = self.directory.with_extension("view");
        self.broker = Some(Broker::start(program, &self.directory, view)?);
        Ok(())
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The store as workers see it.
    pub fn for_workers(&self) -> &Path {
        self.broker.as_ref().map_or(&self.directory, Broker::view)
    }

    /// The process id of the store's daemon, if there is one.
    pub fn daemon(&self) -> Option<u32> {
        self.broker.as_ref().map(Broker::pid)
    }

    /// Memory of the store in bytes, mapped or not.
    pub fn used(&self) -> Result<u64> {
        if self.mounted {
            disk::used(&self.directory)
        } else {
            memory::tree_blocks(&self.directory)
        }
    }

    /// Description of the place, for the report.
    pub fn description(&self) -> &'static str {
        if self.mounted {
            "tmpfs mount of its own, huge=within_size"
        } else {
            "directory on /dev/shm with the page size of that mount (no right to mount)"
        }
    }
}

fn mount_tmpfs(directory: &Path, size: u64) -> nix::Result<()> {
    let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = format!("size={size},mode=0700,huge=within_size");
    let attempt = |options: &str| {
        mount(
            Some("tetris-density"),
            directory,
            Some("tmpfs"),
            flags,
            Some(options),
        )
    };
    // `noswap` came with Linux 6.4.
    attempt(&format!("{options},noswap")).or_else(|_| attempt(&options))
}

impl Drop for StorePlace {
    fn drop(&mut self) {
        self.broker = None;
        if self.mounted {
            // Detached even if a worker still maps it; the memory is freed with the last mapping.
            let _ = umount2(&self.directory, MntFlags::MNT_DETACH);
        }
        let _ = disk::remove_tree(&self.directory);
    }
}
