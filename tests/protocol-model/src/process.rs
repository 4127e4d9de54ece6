//! Processes: their role, their progress, and their descriptions.

use crate::files::Description;
use crate::step::{Protocol, Step};

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Looks up objects, publishes absent ones, holds and releases them.
    Loader,
    /// Reclaims objects.
    Reclaimer,
    /// Quarantines objects, damaged or not.
    Scrubber,
}

/// Activity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// Idle.
    Nothing,
    /// The next step is this index of a protocol.
    At(Protocol, u8),
    /// It has its object and uses it.
    Holds,
}

/// A process. Unused fields have their initial values, so that equivalent states are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its role.
    pub role: Role,
    /// Number of operations that it may still begin.
    pub left: u8,
    /// Its activity.
    pub doing: Doing,
    /// Index of its object.
    pub object: u8,
    /// True during P8.
    pub publishing: bool,
    /// True if its own file got the name.
    pub linked: bool,
    /// Number of attempts at M1 or R1 so far.
    pub attempts: u8,
    /// Number of attempts at P7 so far.
    pub links: u8,
    /// True if it holds the quarantine lock of the object.
    pub alone: bool,
    /// The staged file.
    pub staging: Option<Description>,
    /// The object's file, and its mapping.
    pub file: Option<Description>,
}

impl Process {
    /// Creates a process with `left` operations.
    pub fn new(role: Role, left: u8) -> Self {
        Self {
            role,
            left,
            doing: Doing::Nothing,
            object: 0,
            publishing: false,
            linked: false,
            attempts: 0,
            links: 0,
            alone: false,
            staging: None,
            file: None,
        }
    }

    /// Returns true during an operation.
    pub fn is_busy(&self) -> bool {
        matches!(self.doing, Doing::At(..))
    }

    /// The descriptions that it references.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.staging.iter().chain(&self.file)
    }

    /// The inode that it maps, if any.
    pub fn mapped(&self) -> Option<u8> {
        let mapped = self.descriptions().find(|description| description.mapped);
        mapped.map(|description| description.inode)
    }
}

/// Selects a description of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// [`Process::staging`].
    Staging,
    /// [`Process::file`].
    File,
}

impl Process {
    /// Returns the description in `slot`.
    pub fn slot(&mut self, slot: Slot) -> &mut Option<Description> {
        match slot {
            Slot::Staging => &mut self.staging,
            Slot::File => &mut self.file,
        }
    }
}

/// Completed steps, in order, as the real code reports them.
pub type Passed = Vec<Step>;
