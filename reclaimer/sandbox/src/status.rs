//! The restrictions in force, as the process itself sees them.

use crate::proc::{NONE, Proc};
use crate::{SandboxError, Unrestricted};

/// Restrictions in force, and the rights that are left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    /// True if the filter of system calls is in force.
    pub seccomp: bool,
    /// The reason for no filter.
    pub seccomp_because: Option<String>,
    /// Version of the kernel's Landlock interface whose rules are in force.
    pub landlock: Option<u32>,
    /// The reason for no rules.
    pub landlock_because: Option<String>,
    /// Permitted and effective capabilities, as a hexadecimal mask (capabilities(7)), or `none`.
    pub capabilities: String,
    /// Effective user of the process.
    pub uid: u32,
}

impl SandboxStatus {
    /// The status of a process without filter and rules, for the reason `because`.
    ///
    /// # Errors
    /// When `/proc/self/status` cannot be read.
    pub fn without(because: &str) -> Result<Self, SandboxError> {
        let because = Unrestricted::Configured(because.to_owned());
        Self::new(Err(because.clone()), Err(because))
    }

    /// The status with the outcomes of the filter and of the rules.
    pub(crate) fn new(
        seccomp: Result<(), Unrestricted>,
        landlock: Result<u32, Unrestricted>,
    ) -> Result<Self, SandboxError> {
        let proc = Proc::of_self()?;
        Ok(Self {
            seccomp: seccomp.is_ok(),
            seccomp_because: seccomp.err().map(|because| because.to_string()),
            landlock: landlock.as_ref().ok().copied(),
            landlock_because: landlock.err().map(|because| because.to_string()),
            capabilities: proc.capabilities(),
            uid: nix::unistd::geteuid().as_raw(),
        })
    }

    /// True if the process has capabilities.
    pub fn has_capabilities(&self) -> bool {
        self.capabilities != NONE
    }

    /// Missing restrictions with their reasons, for the log.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let seccomp = self.seccomp_because.as_deref();
        let landlock = self.landlock_because.as_deref();
        let seccomp = seccomp.map(|because| ("seccomp", because));
        seccomp
            .into_iter()
            .chain(landlock.map(|because| ("landlock", because)))
    }
}
