//! The table `[processes]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Process;
use crate::field_error::FieldError;

/// The longest address of a Unix socket, without its final zero byte.
const SOCKET_PATH_BYTES: usize = 107;

/// The place where the processes of one daemon find each other, table `processes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessesConfig {
    /// Parent of the directories with the sockets, one directory for each process.
    pub directory: PathBuf,
    /// The seccomp filter and the Landlock rules of each process.
    pub sandbox: Switch,
}

/// A feature that can be switched off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// In force, as far as the kernel has it.
    #[default]
    On,
    /// Not in force.
    Off,
}

impl Default for ProcessesConfig {
    fn default() -> Self {
        Self {
            directory: "/run/tetris".into(),
            sandbox: Switch::On,
        }
    }
}

impl ProcessesConfig {
    /// Directory of a process's socket, which that process alone can write.
    pub fn directory_of(&self, process: Process) -> PathBuf {
        self.directory.join(process.name())
    }

    /// Socket of a process.
    pub fn socket_of(&self, process: Process) -> PathBuf {
        self.directory_of(process).join("socket")
    }

    /// The broker's socket for mounts of models.
    pub fn models_socket(&self) -> PathBuf {
        self.directory_of(Process::Broker).join("models")
    }

    /// Mistakes of all fields.
    pub fn mistakes(&self) -> Vec<FieldError> {
        let field = "processes.directory";
        let mut errors = Vec::new();
        if !self.directory.is_absolute() {
            let found = self.directory.display();
            errors.push(FieldError::new(field, "an absolute path", found));
        }
        let lengths = Process::ALL.map(|process| self.socket_of(process).as_os_str().len());
        if let Some(longest) = lengths.into_iter().max()
            && longest > SOCKET_PATH_BYTES
        {
            let expected =
                format!("a path with which no socket's is over {SOCKET_PATH_BYTES} bytes");
            errors.push(FieldError::new(field, expected, longest));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_socket_in_a_directory_of_its_own() {
        let config = ProcessesConfig::default();
        let sockets = Process::ALL.map(|process| config.socket_of(process));
        assert_eq!(
            sockets.map(|socket| socket.display().to_string()),
            [
                "/run/tetris/volumes/socket",
                "/run/tetris/broker/socket",
                "/run/tetris/cluster/socket",
                "/run/tetris/mirror/socket",
            ]
        );
    }

    #[test]
    fn a_directory_is_absolute_and_short_enough_for_sockets() {
        let mistakes = |directory: &str| {
            let directory = directory.into();
            let config = ProcessesConfig {
                directory,
                ..ProcessesConfig::default()
            };
            config.mistakes().len()
        };
        assert_eq!(mistakes("/run/tetris"), 0);
        assert_eq!(mistakes("run/tetris"), 1);
        // `/volumes/socket` and `/cluster/socket` are 15 bytes.
        assert_eq!(mistakes(&format!("/{}", "a".repeat(91))), 0);
        assert_eq!(mistakes(&format!("/{}", "a".repeat(92))), 1);
    }
}
