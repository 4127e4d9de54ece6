//! How a protocol could be done otherwise, apart from leaving a step out or moving it.

/// A deviation from LAYOUT.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// P1: the file under construction has a name of its own, as with `mkstemp`.
    StagingHasName,
    /// P4: the name follows from what the source was said to be, not from the bytes that were written.
    NameFromSource,
    /// P4: that all bytes were written is not checked.
    LengthUnchecked,
    /// P7: `rename` over whatever has the name.
    RenameOver,
    /// P7: EEXIST is taken for success, and the staged file is mapped instead of the named one.
    KeepOwnCopy,
    /// P7: a file that had a name and lost it is linked again.
    LinkAgain,
    /// P8: the staged file is mapped when it is the one that got the name, not opened by name.
    MapStaged,
    /// M2: waits for the lock.
    MapWaits,
    /// M2: back to M1 as often as it takes.
    MapRetriesForever,
    /// M3: without the link count.
    LinkCountUnchecked,
    /// R1: does not set the mode back.
    ModeNotMended,
    /// R2: waits for the lock.
    ReclaimWaits,
    /// R2: a read lock, which does not exclude readers.
    ReclaimReadLock,
    /// Locks belong to the process and go with any descriptor of the file: POSIX locks.
    PosixLocks,
    /// Locks go with the descriptor, mapping or not.
    LockOfDescriptor,
    /// References are counted in a file, and not by the kernel.
    CountedReferences,
    /// Nobody holds the quarantine lock: Q1 succeeds always.
    QuarantineLockShared,
}
