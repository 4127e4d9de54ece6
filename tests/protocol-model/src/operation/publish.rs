//! P1 to P9: `Store::stage`, `SegmentWriter::write`, `Staging::commit`.

use super::{Ending, Next, Operation};
use crate::files::{Content, Description, Lock, Mode};
use crate::process::Slot;
use crate::step::{Protocol, Step};
use crate::variant::Variant;

impl Operation<'_> {
    pub(super) fn publish(&mut self, step: Step, choice: u8) -> Next {
        if step == Step::P1 {
            let inode = self.state.files.create();
            self.state.files.inode_mut(inode).links =
                u8::from(self.rules.is(Variant::StagingHasName));
            self.me().staging = Some(Description::new(inode, true));
            return self.pass(step);
        }
        if step == Step::P9 {
            self.close(Slot::Staging);
            return self.pass(step);
        }
        let Some(staging) = self.me().staging else {
            return Next::End(Ending::Error);
        };
        match step {
            Step::P3 => self.write(staging.inode, choice),
            Step::P4 => match self.state.files.inode(staging.inode).content {
                _ if self.rules.is(Variant::NameFromSource) => {}
                Content::Whole(object) => self.me().object = object,
                _ if self.rules.is(Variant::LengthUnchecked) => {}
                Content::Part => return Next::End(Ending::GivenUp),
                Content::Empty | Content::Damaged => return Next::End(Ending::Error),
            },
            Step::P5 => self.state.files.inode_mut(staging.inode).mode = Mode::Sealed,
            Step::P6 => {
                self.try_lock(Slot::Staging, Lock::Read);
            }
            Step::P7 => return self.link(staging.inode),
            Step::P8 => return self.map_published(),
            // P2a, P2b: the model has no notion of a full store.
            _ => {}
        }
        self.pass(step)
    }

    fn write(&mut self, inode: u8, choice: u8) {
        let objects = self.rules.objects;
        let file = self.state.files.inode_mut(inode);
        let named = file.named;
        file.content = match file.content {
            Content::Empty => Content::Part,
            Content::Part if choice < objects => Content::Whole(choice),
            content => content,
        };
        self.state.written_after_naming |= named;
    }

    fn link(&mut self, inode: u8) -> Next {
        let object = self.me().object;
        self.me().links += 1;
        if self.rules.is(Variant::RenameOver) {
            self.state.files.unlink(object);
        }
        if self.state.files.lookup(object).is_none() {
            if !self.state.files.link(inode, object) {
                return Next::End(Ending::Error);
            }
            if self.rules.is(Variant::StagingHasName) {
                self.state.files.inode_mut(inode).links -= 1;
            }
            self.me().linked = true;
        }
        self.pass(Step::P7)
    }

    /// P8, which is complete when the object is mapped.
    fn map_published(&mut self) -> Next {
        let (linked, staging) = (self.me().linked, self.me().staging);
        let as_staged =
            linked && self.rules.is(Variant::MapStaged) || self.rules.is(Variant::KeepOwnCopy);
        if as_staged {
            let mut file = staging;
            if let Some(file) = &mut file {
                (file.mapped, file.open) = (true, false);
            }
            self.me().file = file;
            self.me().staging = None;
            return self.pass(Step::P8);
        }
        self.me().publishing = true;
        self.start(Protocol::Map);
        Next::Decided
    }
}
