//! The environment with which a process was started (proc_pid_environ(5)).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Map, Value};

use crate::doctor::check::Check;
use tetris_agent::store_location::STORE_ENV;

const PREFIX: &str = "TETRIS_";
/// Makes a Python interpreter load through the store.
const PATCH_ENV: &str = "TETRIS_PATCH";
/// Values of it that switch the patch off, in lower case.
const OFF: [&str; 6] = ["", "0", "off", "no", "false", "none"];

/// The variables of this project, as they were at the start. What a program sets later is not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment {
    variables: Vec<(String, OsString)>,
}

impl Environment {
    /// Reads `NAME=value` entries, each of which ends with a zero byte.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let entries = bytes.split(|byte| *byte == 0);
        let variables = entries.filter_map(|entry| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (entry.get(..at)?, entry.get(at + 1..)?);
            let name = std::str::from_utf8(name).ok()?;
            let value = OsStr::from_bytes(value).to_owned();
            name.starts_with(PREFIX).then(|| (name.to_owned(), value))
        });
        Self {
            variables: variables.collect(),
        }
    }

    /// The value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let variable = self.variables.iter().find(|(own, _)| own == name)?;
        Some(&variable.1)
    }

    /// The store that it names. An empty value names none.
    pub(super) fn store(&self) -> Option<&OsStr> {
        self.get(STORE_ENV).filter(|value| !value.is_empty())
    }

    /// Returns true if it makes Python interpreters load through the store.
    pub(super) fn patches(&self) -> bool {
        let value = self.get(PATCH_ENV).map(OsStr::to_string_lossy);
        value.is_some_and(|value| !OFF.contains(&value.trim().to_lowercase().as_str()))
    }

    /// The variables, as a check that is never a fault.
    pub(super) fn check(&self) -> Check {
        let pairs: Vec<String> = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={}", value.display()))
            .collect();
        let found = if pairs.is_empty() {
            format!("no variable {PREFIX}* at its start")
        } else {
            pairs.join(" ")
        };
        let facts: Map<String, Value> = self
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string_lossy().into()))
            .collect();
        Check::ok("environment", found).fact("variables", facts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_project_s_variables_are_kept() {
        let bytes = b"PATH=/bin\0TETRIS_STORE=/a=b\0TETRIS_PATCH=1\0SECRET=x\0TETRIS_\xff=1\0";
        let environment = Environment::parse(bytes);
        assert_eq!(environment.store(), Some(OsStr::new("/a=b")));
        assert!(environment.patches());
        let shown = environment.check().found;
        assert_eq!(shown, "TETRIS_STORE=/a=b TETRIS_PATCH=1");
    }

    #[test]
    fn words_for_off_switch_the_patch_off() {
        for (value, on) in [
            ("1", true),
            ("files", true),
            ("0", false),
            ("OFF", false),
            ("", false),
        ] {
            let bytes = format!("TETRIS_PATCH={value}\0");
            assert_eq!(
                Environment::parse(bytes.as_bytes()).patches(),
                on,
                "{value}"
            );
        }
        assert!(!Environment::default().patches());
        assert_eq!(Environment::parse(b"TETRIS_STORE=\0").store(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let environment = Environment::parse(&bytes);
            let _check = environment.check();
            prop_assert!(environment.variables.iter().all(|(name, _)| name.starts_with(PREFIX)));
        }
    }
}
