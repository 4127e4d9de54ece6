//! A process: what it does, how far it is, what it holds.

use crate::files::Description;
use crate::step::{Protocol, Step};

/// What a process is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Looks objects up, publishes what is absent, holds it, lets go.
    Loader,
    /// Reclaims.
    Reclaimer,
    /// Quarantines, whether an object is damaged or not.
    Scrubber,
}

/// What a process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// Nothing.
    Nothing,
    /// The step with this index of a protocol is next.
    At(Protocol, u8),
    /// It has what it wanted and uses it.
    Holds,
}

/// A process. What it does not need just now has its first value, so that equal states are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// What it is there for.
    pub role: Role,
    /// Operations that it may still begin.
    pub left: u8,
    /// What it is doing.
    pub doing: Doing,
    /// On which object.
    pub object: u8,
    /// In the midst of P8.
    pub publishing: bool,
    /// Its own file got the name.
    pub linked: bool,
    /// M1 or R1 done before.
    pub attempts: u8,
    /// P7 done before.
    pub links: u8,
    /// Holds the quarantine lock of the object.
    pub alone: bool,
    /// The staged file.
    pub staging: Option<Description>,
    /// The object's file, and the mapping made of it.
    pub file: Option<Description>,
}

impl Process {
    /// A process that may do `left` operations.
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

    /// Whether it is in the midst of an operation.
    pub fn is_busy(&self) -> bool {
        matches!(self.doing, Doing::At(..))
    }

    /// The descriptions that it refers to.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.staging.iter().chain(&self.file)
    }

    /// The inode that it has mapped.
    pub fn mapped(&self) -> Option<u8> {
        let mapped = self.descriptions().find(|description| description.mapped);
        mapped.map(|description| description.inode)
    }
}

/// Which description of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// [`Process::staging`].
    Staging,
    /// [`Process::file`].
    File,
}

impl Process {
    /// The description in `slot`.
    pub fn slot(&mut self, slot: Slot) -> &mut Option<Description> {
        match slot {
            Slot::Staging => &mut self.staging,
            Slot::File => &mut self.file,
        }
    }
}

/// Steps done, in order, as the real code reports them.
pub type Passed = Vec<Step>;
