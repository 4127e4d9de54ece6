//! What the tmpfs of the stores is to be.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// The tmpfs that the stores of this node lie on, table `mount`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountConfig {
    /// Where it is mounted. In a container, below a volume with `mountPropagation: Bidirectional`.
    pub path: PathBuf,
    /// Its size in bytes. Keep it below the memory limit of whoever writes to it: tmpfs cannot be freed by the OOM killer.
    pub size_bytes: u64,
    /// How many files and directories it can have.
    #[serde(default = "default_inodes")]
    pub inodes: u64,
    /// Huge pages.
    #[serde(default)]
    pub huge: HugePages,
    /// Whether its pages stay in memory, where the kernel can do that (Linux 6.4).
    #[serde(default = "default_noswap")]
    pub noswap: bool,
    /// The SELinux context of all its files, on nodes where SELinux is on: one that every container may read.
    #[serde(default)]
    pub selinux_context: Option<String>,
}

/// Whether the kernel may use huge pages (tmpfs(5), `huge`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// Where a whole one lies within the file.
    #[default]
    WithinSize,
    /// None.
    Never,
}

impl HugePages {
    /// As the kernel writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WithinSize => "within_size",
            Self::Never => "never",
        }
    }
}

/// A node's models have some 100,000 tensors, and each inode takes about 1 KiB.
const fn default_inodes() -> u64 {
    1 << 20
}

const fn default_noswap() -> bool {
    true
}

/// Below this, not even the directories of some stores fit.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_INODES: u64 = 64;

impl MountConfig {
    /// Checks every field.
    pub fn check(&self) -> Result<(), ConfigError> {
        let path = self.path.display();
        if !self.path.is_absolute() || self.path.parent().is_none() {
            let expected = "an absolute path other than `/`";
            return Err(ConfigError::value("mount.path", expected, path));
        }
        if self.size_bytes < LEAST_BYTES {
            let expected = format!("at least {LEAST_BYTES}");
            let found = self.size_bytes;
            return Err(ConfigError::value("mount.size_bytes", expected, found));
        }
        if self.inodes < LEAST_INODES {
            let expected = format!("at least {LEAST_INODES}");
            return Err(ConfigError::value("mount.inodes", expected, self.inodes));
        }
        match &self.selinux_context {
            Some(context) if context.split(':').count() < 4 => {
                let expected =
                    "user:role:type:level, such as `system_u:object_r:container_file_t:s0`";
                Err(ConfigError::value(
                    "mount.selinux_context",
                    expected,
                    context,
                ))
            }
            _ => Ok(()),
        }
    }
}
