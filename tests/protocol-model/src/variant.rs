//! Deviations from the protocols, other than omitted and moved steps.

/// A deviation from LAYOUT.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// P1: the file under construction has a name, as with `mkstemp`.
    StagingHasName,
    /// P4: the name follows from the announced source, not from the written bytes.
    NameFromSource,
    /// P4: does not check that all bytes were written.
    LengthUnchecked,
    /// P7: `rename` over an existing name.
    RenameOver,
    /// P7: treats EEXIST as success, and maps the staged file instead of the named one.
    KeepOwnCopy,
    /// P7: links a file again that has lost its name.
    LinkAgain,
    /// P8: maps the staged file if it got the name, instead of opening by name.
    MapStaged,
    /// M2: waits for the lock.
    MapWaits,
    /// M2: returns to M1 without limit.
    MapRetriesForever,
    /// M3: does not check the link count.
    LinkCountUnchecked,
    /// R1: does not restore the mode.
    ModeNotMended,
    /// R2: waits for the lock.
    ReclaimWaits,
    /// R2: a read lock, which does not exclude readers.
    ReclaimReadLock,
    /// Locks belong to the process and end with any descriptor of the file: POSIX locks.
    PosixLocks,
    /// Locks end with the descriptor, even if a mapping exists.
    LockOfDescriptor,
    /// A file counts references instead of the kernel.
    CountedReferences,
    /// The quarantine lock excludes no process: Q1 always succeeds.
    QuarantineLockShared,
}
