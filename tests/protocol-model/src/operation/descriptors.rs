//! Closing and locking, and their effects under each kind of lock.

use super::Operation;
use crate::files::Lock;
use crate::process::Slot;
use crate::variant::Variant;

impl Operation<'_> {
    /// Unmaps and closes.
    pub(super) fn let_go(&mut self, slot: Slot) {
        if let Some(description) = self.me().slot(slot) {
            description.mapped = false;
            self.close(slot);
        }
    }

    /// Closes the descriptor; a mapping keeps the description.
    pub(super) fn close(&mut self, slot: Slot) {
        let (posix, short) = (
            self.rules.is(Variant::PosixLocks),
            self.rules.is(Variant::LockOfDescriptor),
        );
        let me = self.me();
        let Some(description) = me.slot(slot) else {
            return;
        };
        description.open = false;
        if short {
            description.lock = Lock::Free;
        }
        let inode = description.inode;
        if !description.mapped {
            *me.slot(slot) = None;
        }
        let others = [&mut me.staging, &mut me.file].into_iter().flatten();
        for other in others.filter(|other| posix && other.inode == inode) {
            other.lock = Lock::Free;
        }
    }

    /// Locks without waiting.
    pub(super) fn try_lock(&mut self, slot: Slot, lock: Lock) -> bool {
        let Some(own) = *self.me().slot(slot) else {
            return false;
        };
        let posix = self.rules.is(Variant::PosixLocks);
        let mut others = self.state.processes.iter().enumerate();
        let taken = others.any(|(index, process)| {
            let mine = index == self.me;
            let first = process
                .staging
                .filter(|_| !mine || (slot != Slot::Staging && !posix));
            let second = process
                .file
                .filter(|_| !mine || (slot != Slot::File && !posix));
            let mut both = first.into_iter().chain(second);
            both.any(|other| other.inode == own.inode && other.lock.excludes(lock))
        });
        let counted = lock == Lock::Write && self.state.files.inode(own.inode).counted;
        if taken || counted {
            return false;
        }
        if let Some(description) = self.me().slot(slot) {
            description.lock = lock;
        }
        true
    }
}
