//! M1 to M5: `Store::map`.

use super::{Ending, Next, Operation};
use crate::files::{Content, Description, Lock, Mode};
use crate::process::Slot;
use crate::step::Step;
use crate::variant::Variant;

impl Operation<'_> {
    pub(super) fn map(&mut self, step: Step) -> Next {
        if step == Step::M1 {
            let object = self.me().object;
            let Some(inode) = self.state.files.lookup(object) else {
                return Next::End(Ending::Absent);
            };
            // Loaders and the publisher may be different users.
            if self.state.files.inode(inode).mode == Mode::Staged {
                return Next::End(Ending::Error);
            }
            self.me().file = Some(Description::new(inode, false));
            return self.pass(step);
        }
        let Some(file) = self.me().file else {
            return Next::End(Ending::Error);
        };
        match step {
            Step::M2 if self.try_lock(Slot::File, Lock::Read) => {}
            Step::M2 if self.rules.is(Variant::MapWaits) => return Next::Wait,
            Step::M2 => {
                self.pass(step);
                return self.retry(Step::M1, self.rules.is(Variant::MapRetriesForever));
            }
            Step::M3 => {
                let inode = *self.state.files.inode(file.inode);
                if inode.content == Content::Damaged {
                    return Next::End(Ending::Damaged);
                }
                if inode.links == 0 && !self.rules.is(Variant::LinkCountUnchecked) {
                    return self.retry(Step::M1, false);
                }
            }
            Step::M4 => {
                self.me().file = Some(Description {
                    mapped: true,
                    ..file
                });
            }
            _ => self.close(Slot::File),
        }
        self.pass(step)
    }
}
