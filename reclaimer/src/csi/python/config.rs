//! The table `[csi.python]`.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;

/// The Python package that pods can get as a volume, table `csi.python`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PythonConfig {
    /// Folder of the package in the daemon's image.
    pub source: PathBuf,
    /// Directory below which each version of the package is mounted, on its own tmpfs.
    pub path: PathBuf,
    /// SELinux context of its files; without effect where SELinux is off.
    pub selinux_context: String,
}

impl Default for PythonConfig {
    fn default() -> Self {
        Self {
            source: "/usr/share/tetris/python".into(),
            path: "/var/lib/tetris/python".into(),
            selinux_context: "system_u:object_r:container_file_t:s0".to_owned(),
        }
    }
}

impl PythonConfig {
    /// Mistakes of all fields.
    pub(in crate::csi) fn add_mistakes(&self, errors: &mut Vec<FieldError>) {
        let paths = [
            ("csi.python.source", &self.source),
            ("csi.python.path", &self.path),
        ];
        for (field, path) in paths {
            if !is_straight(path) {
                let expected = "an absolute path without `..`";
                errors.push(FieldError::new(field, expected, path.display()));
            }
        }
        let is_bad = |c: char| c.is_control() || c.is_whitespace();
        if self.selinux_context.is_empty() || self.selinux_context.contains(is_bad) {
            let expected = "an SELinux context, such as system_u:object_r:container_file_t:s0";
            let found = format!("{:?}", self.selinux_context);
            errors.push(FieldError::new(
                "csi.python.selinux_context",
                expected,
                found,
            ));
        }
    }
}

fn is_straight(path: &Path) -> bool {
    let straight = |part| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.file_name().is_some() && path.components().all(straight)
}
