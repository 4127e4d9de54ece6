//! Directories of a node, below shared mounts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use tetris_node::csi::CsiConfig;

use tetris_test_support::mounts::{self, Place};

/// Directories of the kubelet, the stores and the pods.
pub struct Host {
    dir: Place,
}

/// A pod.
#[derive(Debug, Clone)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// Its service account.
    pub account: String,
    /// User of its processes.
    pub user: u32,
    /// Its volume.
    pub volume: PathBuf,
    /// Its own directory.
    pub scratch: PathBuf,
}

impl Host {
    /// In a mount namespace of this thread; `None` for who is not root.
    pub fn new() -> Option<Self> {
        mounts::enter().then(|| {
            let dir = Place::default();
            // Pods' users reach their own directories.
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
            let host = Self { dir };
            for place in [host.kubelet(), host.tmpfs()] {
                mounts::tmpfs(&place, "size=16m,mode=0755");
                mounts::propagation(&place, MsFlags::MS_SHARED);
            }
            host
        })
    }

    /// A path that is below all others.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn kubelet(&self) -> PathBuf {
        self.path("kubelet")
    }

    fn tmpfs(&self) -> PathBuf {
        self.path("tetris")
    }

    pub fn stores(&self) -> PathBuf {
        self.tmpfs().join("stores")
    }

    pub fn csi(&self) -> CsiConfig {
        CsiConfig {
            kubelet_dir: self.kubelet(),
            ..CsiConfig::default()
        }
    }

    /// A pod, as the kubelet prepares it: without the last part of its volume's path.
    pub fn pod(&self, namespace: &str, name: &str, user: u32) -> Pod {
        let volumes = "volumes/kubernetes.io~csi/tetris";
        let volume = self.kubelet().join("pods").join(name).join(volumes);
        fs::create_dir_all(&volume).unwrap();
        let scratch = self.path("pods").join(name);
        fs::create_dir_all(&scratch).unwrap();
        own(&scratch, user);
        Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            account: "default".to_owned(),
            user,
            volume: volume.join("mount"),
            scratch,
        }
    }
}

fn own(dir: &Path, user: u32) {
    chown(dir, Some(user), Some(user)).unwrap();
}
