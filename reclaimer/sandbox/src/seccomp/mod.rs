//! The filter of system calls.
//!
//! Two filters, since each gives one answer to all that it does not permit. The first answers ENOSYS for calls that libraries
//! can do without; the second is the list of permitted calls and answers EPERM for the rest. The kernel
//! takes the stricter answer of both. It keeps the answers for calls permitted with any
//! arguments (from Linux 5.11 on), so that these cost next to nothing.

mod arguments;
mod calls;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use nix::errno::Errno;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch,
    apply_filter_all_threads,
};

use crate::profile::Profile;
use crate::{SandboxError, Unrestricted};

/// Filters of system calls, compiled.
pub(crate) struct Filters([BpfProgram; 2]);

impl Filters {
    /// Compiles the filters of `profile`.
    pub(crate) fn of(profile: &Profile) -> Result<Self, BackendError> {
        let missing = calls::missing().map(|call| (call, Vec::new()));
        let not_implemented = SeccompFilter::new(
            missing.clone().collect(),
            SeccompAction::Allow,
            answer(Errno::ENOSYS),
            TargetArch::try_from(ARCH)?,
        )?;
        let mut permitted: BTreeMap<i64, Vec<SeccompRule>> = calls::permitted(profile.drivers)
            .map(|call| (call, Vec::new()))
            .chain(missing)
            .collect();
        permitted.extend(arguments::permitted(profile, std::process::id())?);
        let list = SeccompFilter::new(
            permitted,
            answer(Errno::EPERM),
            SeccompAction::Allow,
            TargetArch::try_from(ARCH)?,
        )?;
        Ok(Self([not_implemented.try_into()?, list.try_into()?]))
    }

    /// Puts the filters in force, for all threads of this process. Nothing takes them away again.
    ///
    /// The inner error is the reason of a kernel that has no filters.
    pub(crate) fn enter(&self) -> Result<Result<(), Unrestricted>, SandboxError> {
        for program in &self.0 {
            match apply_filter_all_threads(program) {
                Ok(()) => {}
                Err(seccompiler::Error::Seccomp(error)) if is_absent(&error) => {
                    return Ok(Err(Unrestricted::NoFilter));
                }
                Err(error) => return Err(SandboxError::Seccomp(error)),
            }
        }
        Ok(Ok(()))
    }
}

fn answer(errno: Errno) -> SeccompAction {
    SeccompAction::Errno(errno as u32)
}

/// The error of a kernel without seccomp(2) or without its filters.
fn is_absent(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::ENOSYS | Errno::EINVAL))
}
