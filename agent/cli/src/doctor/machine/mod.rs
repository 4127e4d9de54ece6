//! The machine: features of the kernel that the store depends on, and limits of this process.

mod kernel;
pub(super) mod limits;
pub(super) mod memory;

use super::check::{Check, Section};
use super::store::SeenStore;

/// The checks of the machine, as this process sees it.
pub(super) fn section(seen: &SeenStore) -> Section {
    let mut section = Section::new("machine", None);
    section.checks.push(kernel::release());
    section.checks.push(kernel::locks());
    section.checks.push(kernel::unnamed_files());
    section.checks.push(kernel::holders());
    section.checks.push(limits::mappings());
    section.checks.push(limits::descriptors());
    section.checks.push(memory::check(seen));
    section
}

/// A check of something that the kernel does not say.
fn unknown(name: &str, error: impl std::fmt::Display) -> Check {
    Check::note(name, format!("not known: {error}"))
}
