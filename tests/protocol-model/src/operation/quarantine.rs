//! Q1 to Q6: `Store::quarantine`.

use super::{Ending, Next, Operation};
use crate::files::{Description, Lock};
use crate::process::Slot;
use crate::step::Step;
use crate::variant::Variant;

impl Operation<'_> {
    pub(super) fn quarantine(&mut self, step: Step) -> Next {
        let object = self.me().object;
        match step {
            Step::Q1 => {
                let mut others = self.state.processes.iter();
                let taken = others.any(|other| other.alone && other.object == object);
                if taken && !self.rules.is(Variant::QuarantineLockShared) {
                    // The real wait is bounded and may end at any moment.
                    return Next::End(Ending::GivenUp);
                }
                self.me().alone = true;
            }
            Step::Q2 => {
                let Some(inode) = self.state.files.lookup(object) else {
                    return Next::End(Ending::Absent);
                };
                self.me().file = Some(Description::new(inode, false));
            }
            Step::Q3 if self.try_lock(Slot::File, Lock::Read) => {}
            Step::Q3 if self.me().file.is_none() => return Next::End(Ending::Error),
            Step::Q3 => return self.retry(Step::Q2, false),
            Step::Q4 => {
                let file = self.me().file.map(|file| file.inode);
                if file.is_none() || self.state.files.lookup(object) != file {
                    return Next::End(Ending::Absent);
                }
            }
            Step::Q5 => self.state.files.quarantine(object),
            _ => {
                self.close(Slot::File);
                self.me().alone = false;
            }
        }
        self.pass(step)
    }
}
