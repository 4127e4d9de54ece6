//! The table `[mount]`: the tmpfs of the stores.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;

/// The tmpfs that the stores of this node lie on, table `mount`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountTable {
    /// Mount point. In a container, below a volume with `mountPropagation: Bidirectional`.
    pub path: PathBuf,
    /// Its size in bytes. Without it and `size_percent`, `memory_limit_bytes` less `reserve_bytes`.
    #[serde(default, with = "tetris_units::size::optional")]
    pub size_bytes: Option<u64>,
    /// Its size as a share of the machine's RAM, 1 to 100 percent, in place of `size_bytes`.
    #[serde(default)]
    pub size_percent: Option<u64>,
    /// The memory limit of the container that the daemon runs in; the flag `--memory-limit` goes
    /// before it.
    #[serde(default, with = "tetris_units::size::optional")]
    pub memory_limit_bytes: Option<u64>,
    /// Part of that limit that is not for the tmpfs: the daemon itself, pieces of models that it
    /// reads, and the kernel's about 1 KiB for each file in use. The tmpfs must not reach the
    /// limit: the OOM killer cannot free it.
    #[serde(default = "default_reserve", with = "tetris_units::size")]
    pub reserve_bytes: u64,
    /// Number of files and directories that it can have. Without it, those that half of
    /// `reserve_bytes` bears at [`INODE_BYTES`] each.
    #[serde(default)]
    pub inodes: Option<u64>,
    /// Huge pages.
    #[serde(default)]
    pub huge: HugePages,
    /// True if its pages stay in memory, where the kernel can do that (Linux 6.4).
    #[serde(default = "default_noswap")]
    pub noswap: bool,
    /// The SELinux context of all its files, on nodes where SELinux is on: one that every container
    /// may read.
    #[serde(default)]
    pub selinux_context: Option<String>,
    /// User and group that own the stores, those of the process that looks after them. A tmpfs of
    /// another owner is handed over when it is adopted; 0 leaves it.
    #[serde(default)]
    pub user: u32,
}

/// A checked [`MountTable`]; fields mean the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountConfig {
    /// Mount point.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Number of files and directories that it can have.
    pub inodes: u64,
    /// Huge pages.
    pub huge: HugePages,
    /// True if its pages stay in memory.
    pub noswap: bool,
    /// The SELinux context of all its files.
    pub selinux_context: Option<String>,
    /// User and group that own the stores.
    pub user: u32,
}

/// Use of huge pages (tmpfs(5), `huge`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    /// Only where a whole one lies within the file.
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

/// Memory of the kernel for each file, in bytes: a `shmem_inode_cache` object of 752, the size on
/// x86-64 with the usual options, and a dentry of 192. It is charged to the daemon's cgroup, which
/// makes the files, and stays beside a full tmpfs. So inodes without a limit end in the OOM killer:
/// 2^20 of them take 990 MB.
pub const INODE_BYTES: u64 = 752 + 192;

const fn default_noswap() -> bool {
    true
}

/// Half is for the kernel's inodes and dentries: 284,359 files, of which a node's models have some
/// 100,000. The daemon over 100,000 objects takes 50 MB, and its reads some 100 MB.
const fn default_reserve() -> u64 {
    512 << 20
}

/// Sizes that are shares of the RAM are whole large pages.
const LARGE_PAGE: u64 = 2 << 20;

/// Below this, not even the directories of some stores fit.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_INODES: u64 = 64;

impl MountTable {
    /// Checks every field. Returns the wanted tmpfs.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<MountConfig, Vec<FieldError>> {
        let mut errors = Vec::new();
        if !self.path.is_absolute() || self.path.parent().is_none() {
            let expected = "an absolute path other than `/`";
            let found = self.path.display();
            errors.push(FieldError::new("mount.path", expected, found));
        }
        let size_bytes = self.size().map_err(|error| errors.push(error));
        if let Some(inodes) = self.inodes {
            let most = match self.memory_limit_bytes {
                Some(_) => self.reserve_bytes / INODE_BYTES,
                None => u64::MAX,
            };
            if inodes < LEAST_INODES {
                let expected = format!("at least {LEAST_INODES}");
                errors.push(FieldError::new("mount.inodes", expected, inodes));
            } else if inodes > most {
                let expected = format!(
                    "at most {most}, for which `mount.reserve_bytes` has the memory: each takes {INODE_BYTES} bytes of the kernel's"
                );
                errors.push(FieldError::new("mount.inodes", expected, inodes));
            }
        }
        if let Some(context) = &self.selinux_context
            && context.split(':').count() < 4
        {
            let field = "mount.selinux_context";
            let expected = "user:role:type:level, such as `system_u:object_r:container_file_t:s0`";
            errors.push(FieldError::new(field, expected, context));
        }
        match size_bytes {
            Ok(size_bytes) if errors.is_empty() => Ok(MountConfig {
                path: self.path.clone(),
                size_bytes,
                inodes: self.inodes(),
                huge: self.huge,
                noswap: self.noswap,
                selinux_context: self.selinux_context.clone(),
                user: self.user,
            }),
            _ => Err(errors),
        }
    }

    fn inodes(&self) -> u64 {
        let borne = self.reserve_bytes / 2 / INODE_BYTES;
        self.inodes.unwrap_or(borne.max(LEAST_INODES))
    }

    fn size(&self) -> Result<u64, FieldError> {
        let reserve = self.reserve_bytes;
        let most = match self.memory_limit_bytes {
            Some(limit) => limit
                .checked_sub(reserve)
                .filter(|rest| *rest >= LEAST_BYTES),
            None => Some(u64::MAX),
        };
        let Some(most) = most else {
            let least = reserve.saturating_add(LEAST_BYTES);
            let expected = format!("at least {least}, which is `mount.reserve_bytes` and a little");
            let found = self.memory_limit_bytes.unwrap_or_default();
            return Err(FieldError::new("mount.memory_limit_bytes", expected, found));
        };
        let field = "mount.size_bytes";
        let size = match (self.size_bytes, self.size_percent) {
            (Some(_), Some(percent)) => {
                let expected = "nothing beside `mount.size_bytes`";
                return Err(FieldError::new("mount.size_percent", expected, percent));
            }
            (None, Some(percent)) => Some(share_of_ram(percent)?),
            (size, None) => size,
        };
        match (size, self.memory_limit_bytes) {
            (None, None) => {
                let expected = "a size, here or as `mount.size_percent`, or a memory limit to take it from (flag --memory-limit)";
                Err(FieldError::new(field, expected, "neither"))
            }
            (None, Some(_)) => Ok(most),
            (Some(size), _) if size < LEAST_BYTES => {
                let expected = format!("at least {LEAST_BYTES}");
                Err(FieldError::new(field, expected, size))
            }
            (Some(size), Some(limit)) if size > most => {
                let expected = format!(
                    "at most {most}: the memory limit is {limit}, of which {reserve} are reserved"
                );
                Err(FieldError::new(field, expected, size))
            }
            (Some(size), _) => Ok(size),
        }
    }
}

/// A share of the machine's RAM in bytes.
fn share_of_ram(percent: u64) -> Result<u64, FieldError> {
    let field = "mount.size_percent";
    if !(1..=100).contains(&percent) {
        return Err(FieldError::new(field, "1 to 100", percent));
    }
    let ram = nix::sys::sysinfo::sysinfo();
    let ram = ram.map_err(|error| FieldError::new(field, "the size of the RAM", error))?;
    let share = ram.ram_total() / 100 * percent;
    Ok((share - share % LARGE_PAGE).max(LARGE_PAGE))
}
