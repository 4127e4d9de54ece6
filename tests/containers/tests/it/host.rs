//! A simulated node of a cluster: directories below a mount with shared propagation, and a disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;
use tetris_container_tests::model::Spec;
use tetris_node::mount::MountEntry;

use crate::docker::{disk, missing, unique};
use crate::image::{Image, image};
use crate::sweep::sweep;
use tetris_test_support::skipped::skipped;

/// Parent of the hosts' mounts; short, because sockets have short addresses.
pub const HOSTS: &str = "/run";

pub struct Host {
    dir: PathBuf,
    downloads: TempDir,
    pub image: Arc<Image>,
}

impl Host {
    /// One for the running test; `None` where there is no Docker, which is said.
    pub fn new() -> Option<Self> {
        if let Some(reason) = missing() {
            skipped(&reason);
            return None;
        }
        sweep();
        let dir = Path::new(HOSTS).join(unique("host"));
        fs::create_dir(&dir).unwrap();
        let none = None::<&str>;
        let size = Some("size=64m,mode=0755");
        mount(
            Some("tetris-test"),
            &dir,
            Some("tmpfs"),
            MsFlags::empty(),
            size,
        )
        .unwrap();
        let host = Self {
            dir,
            downloads: disk(),
            image: image(),
        };
        mount(none, &host.dir, none, MsFlags::MS_SHARED, none).unwrap();
        for folder in [host.tetris(), host.kubelet(), host.config()] {
            fs::create_dir(folder).unwrap();
        }
        Some(host)
    }

    /// `/var/lib/tetris` of the node's container.
    pub fn tetris(&self) -> PathBuf {
        self.dir.join("tetris")
    }

    /// `/var/lib/kubelet`.
    pub fn kubelet(&self) -> PathBuf {
        self.dir.join("kubelet")
    }

    /// `/etc/tetris`.
    pub fn config(&self) -> PathBuf {
        self.dir.join("config")
    }

    /// The directories of the processes' sockets.
    pub fn sockets(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// The tmpfs of the stores.
    pub fn stores(&self) -> PathBuf {
        self.tetris().join("stores")
    }

    /// A directory on the disk, with a separate copy of the model.
    pub fn download(&self, name: &str, spec: Spec) -> PathBuf {
        let dir = self.downloads.path().join(name);
        fs::create_dir(&dir).unwrap();
        spec.write(&dir.join("model.safetensors")).unwrap();
        dir
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        unmount(&self.dir);
    }
}

/// Takes away a host and all that is mounted below it.
pub fn unmount(dir: &Path) {
    let _gone = umount2(dir, MntFlags::MNT_DETACH);
    let _removed = fs::remove_dir(dir);
}

/// The mount at exactly this place in this mount namespace: the topmost of several.
pub fn mounted_at(place: &Path) -> Option<MountEntry> {
    let lines = fs::read("/proc/self/mountinfo").unwrap();
    let entries = lines.split(|byte| *byte == b'\n');
    let mut here = entries
        .filter_map(MountEntry::parse)
        .filter(|entry| entry.mount_point == place);
    here.next_back()
}
