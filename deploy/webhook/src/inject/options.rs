//! Settings of the injection, checked.

use thiserror::Error;

use super::paths::parts;

/// The CSI driver's name where none is given.
pub const DEFAULT_DRIVER: &str = "csi.tetris.dev";
/// The agent's default path.
pub const DEFAULT_MOUNT_PATH: &str = "/run/tetris/store";

const DRIVER_CHARS: usize = 63;

/// Settings of the injection that hold for all pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    driver: String,
    mount_path: String,
}

/// The reason settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The driver's name is none.
    #[error(
        "--driver {found:?}: expected the name of the CSIDriver object, such as `{DEFAULT_DRIVER}`: \
         at most {DRIVER_CHARS} letters, digits, '-' and '.'"
    )]
    Driver {
        /// The given value.
        found: String,
    },
    /// The path cannot be one of a mount.
    #[error(
        "--mount-path {found:?}: expected an absolute path without `..` and ':', such as `{DEFAULT_MOUNT_PATH}`"
    )]
    MountPath {
        /// The given value.
        found: String,
    },
}

impl Options {
    /// Volumes of the CSI driver `driver`, mounted at `mount_path` in each container.
    pub fn try_new(driver: &str, mount_path: &str) -> Result<Self, OptionsError> {
        let letter = |c: char| c.is_ascii_alphanumeric();
        let is_driver = driver.len() <= DRIVER_CHARS
            && driver.starts_with(letter)
            && driver.ends_with(letter)
            && driver.chars().all(|c| letter(c) || c == '-' || c == '.');
        if !is_driver {
            let found = driver.to_owned();
            return Err(OptionsError::Driver { found });
        }
        let normal = format!("/{}", parts(mount_path).join("/"));
        let bad = |c: char| c == ':' || c == ',' || c.is_control();
        if normal != mount_path || normal == "/" || mount_path.contains(bad) {
            let found = mount_path.to_owned();
            return Err(OptionsError::MountPath { found });
        }
        Ok(Self {
            driver: driver.to_owned(),
            mount_path: mount_path.to_owned(),
        })
    }

    /// The CSI driver's name.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Path of the store in containers.
    pub fn mount_path(&self) -> &str {
        &self.mount_path
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            driver: DEFAULT_DRIVER.to_owned(),
            mount_path: DEFAULT_MOUNT_PATH.to_owned(),
        }
    }
}
