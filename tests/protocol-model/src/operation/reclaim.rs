//! R1 to R5: `Store::reclaim`.

use super::{ATTEMPTS, Ending, Next, Operation};
use crate::files::{Description, Lock, Mode};
use crate::process::Slot;
use crate::step::Step;
use crate::variant::Variant;

impl Operation<'_> {
    pub(super) fn reclaim(&mut self, step: Step) -> Next {
        if step == Step::R1 {
            return self.open_for_locking();
        }
        let Some(file) = self.me().file else {
            return Next::End(Ending::Error);
        };
        let object = self.me().object;
        let kind = if self.rules.is(Variant::ReclaimReadLock) {
            Lock::Read
        } else {
            Lock::Write
        };
        match step {
            Step::R2 if self.try_lock(Slot::File, kind) => {}
            Step::R2 if self.rules.is(Variant::ReclaimWaits) => return Next::Wait,
            Step::R3 if self.state.files.lookup(object) == Some(file.inode) => {}
            Step::R2 | Step::R3 => return Next::End(Ending::Absent),
            Step::R4 => self.state.files.unlink(object),
            _ => self.close(Slot::File),
        }
        self.pass(step)
    }

    /// R1, call by call.
    fn open_for_locking(&mut self) -> Next {
        match self.me().file {
            Some(file) if file.writable => {
                if !self.rules.is(Variant::ModeNotMended) {
                    self.state.files.inode_mut(file.inode).mode = Mode::Sealed;
                }
                return self.pass(Step::R1);
            }
            Some(file) => {
                self.state.files.inode_mut(file.inode).mode = Mode::Writable;
                self.let_go(Slot::File);
                return Next::Same;
            }
            None => {}
        }
        let object = self.me().object;
        let Some(inode) = self.state.files.lookup(object) else {
            return Next::End(Ending::Absent);
        };
        let mode = self.state.files.inode(inode).mode;
        if mode == Mode::Sealed && self.rules.unprivileged {
            if self.me().attempts >= ATTEMPTS {
                return Next::End(Ending::GivenUp);
            }
            self.me().attempts += 1;
            self.me().file = Some(Description::new(inode, false));
            return Next::Same;
        }
        self.me().file = Some(Description::new(inode, true));
        if mode == Mode::Writable {
            return Next::Same;
        }
        self.pass(Step::R1)
    }
}
