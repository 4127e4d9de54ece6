//! Settings of the injection, checked.

use thiserror::Error;

use super::paths::{Relation, parts, relation};

/// The CSI driver's name where none is given.
pub const DEFAULT_DRIVER: &str = "csi.tetris.dev";
/// The agent's default path.
pub const DEFAULT_MOUNT_PATH: &str = "/run/tetris/store";

/// Path of the Python package in containers.
pub const DEFAULT_PYTHON_PATH: &str = "/run/tetris/python";

const DRIVER_CHARS: usize = 63;

/// Settings of the injection that hold for all pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    driver: String,
    mount_path: String,
    python_path: String,
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
        "{flag} {found:?}: expected an absolute path without `..`, ':', ',' and '$', such as `{example}`"
    )]
    MountPath {
        /// The flag.
        flag: &'static str,
        /// The given value.
        found: String,
        /// A good value.
        example: &'static str,
    },
    /// The two mounts would be in each other's way.
    #[error(
        "--python-path {found:?}: expected a path that is not at, above or below --mount-path, such as `{DEFAULT_PYTHON_PATH}`"
    )]
    Nested {
        /// The given value.
        found: String,
    },
}

impl Options {
    /// Volumes of the CSI driver `driver`: the store, mounted at `mount_path` in each container, and the Python package at
    /// `python_path`.
    pub fn try_new(
        driver: &str,
        mount_path: &str,
        python_path: &str,
    ) -> Result<Self, OptionsError> {
        let letter = |c: char| c.is_ascii_alphanumeric();
        let is_driver = driver.len() <= DRIVER_CHARS
            && driver.starts_with(letter)
            && driver.ends_with(letter)
            && driver.chars().all(|c| letter(c) || c == '-' || c == '.');
        if !is_driver {
            let found = driver.to_owned();
            return Err(OptionsError::Driver { found });
        }
        check_path("--mount-path", mount_path, DEFAULT_MOUNT_PATH)?;
        check_path("--python-path", python_path, DEFAULT_PYTHON_PATH)?;
        if relation(python_path, mount_path) != Relation::Apart {
            let found = python_path.to_owned();
            return Err(OptionsError::Nested { found });
        }
        Ok(Self {
            driver: driver.to_owned(),
            mount_path: mount_path.to_owned(),
            python_path: python_path.to_owned(),
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

    /// Path of the Python package in containers.
    pub fn python_path(&self) -> &str {
        &self.python_path
    }
}

fn check_path(flag: &'static str, path: &str, example: &'static str) -> Result<(), OptionsError> {
    let normal = format!("/{}", parts(path).join("/"));
    let bad = |c: char| matches!(c, ':' | ',' | '$') || c.is_control();
    if normal == path && normal != "/" && !path.contains(bad) {
        return Ok(());
    }
    Err(OptionsError::MountPath {
        flag,
        found: path.to_owned(),
        example,
    })
}

impl Default for Options {
    fn default() -> Self {
        Self {
            driver: DEFAULT_DRIVER.to_owned(),
            mount_path: DEFAULT_MOUNT_PATH.to_owned(),
            python_path: DEFAULT_PYTHON_PATH.to_owned(),
        }
    }
}
