//! One step of one process, as in the real code.

use crate::files::{Content, Files, Lock};
use crate::process::{Doing, Passed, Process, Role, Slot};
use crate::step::{Protocol, Step, Steps};
use crate::variant::Variant;

/// Maximum number of attempts at M1, Q2 and R1. More than one, so that the model has retries; the
/// code tries more often.
pub const ATTEMPTS: u8 = 2;
/// Maximum number of attempts at P7.
pub const LINKS: u8 = 2;

/// The protocols and their deviations.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Their steps.
    pub steps: Steps,
    /// The deviation, if any.
    pub variant: Option<Variant>,
    /// True if the owner has no capabilities and cannot open a 0444 file for writing.
    pub unprivileged: bool,
    /// Number of objects.
    pub objects: u8,
}

impl Rules {
    pub(crate) fn is(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }
}

/// Files, processes and history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The file system.
    pub files: Files,
    /// The processes.
    pub processes: Vec<Process>,
    /// Number of processes that may still be killed.
    pub crashes: u8,
    /// Number of objects that may still be damaged.
    pub faults: u8,
    /// True if a process has been killed.
    pub crashed: bool,
    /// True if a file was written after it had a name.
    pub written_after_naming: bool,
    /// True if a load ended in private memory only because of the protocol.
    pub refused: bool,
}

/// Continuation after a step.
enum Next {
    /// The next step of the protocol.
    On,
    /// The same step.
    Same,
    /// Another step of the protocol.
    To(Step),
    /// No step until another process acts.
    Wait,
    /// The protocol ends before its last step.
    End(Ending),
    /// The step has already set the continuation.
    Decided,
}

/// Reason for the early end of a protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The object is absent, or the operation leaves it alone.
    Absent,
    /// The named file is not the object.
    Damaged,
    /// A limit was reached, or the source was too short: the load continues without the store, as
    /// intended.
    GivenUp,
    /// A call failed that must not fail.
    Error,
}

/// The execution of a step.
pub(crate) struct Operation<'a> {
    rules: &'a Rules,
    state: State,
    me: usize,
    passed: &'a mut Passed,
}

impl State {
    /// Number of choices of process `me` at its next step.
    pub(crate) fn choices(&self, rules: &Rules, me: usize) -> u8 {
        let process = &self.processes[me];
        let Doing::At(protocol, index) = process.doing else {
            return 1;
        };
        let step = rules.steps.list(protocol)[usize::from(index)];
        let staged = process
            .staging
            .map(|staging| self.files.inode(staging.inode));
        match staged {
            // The bytes of any object, because the source may have changed; or no more bytes.
            Some(inode) if step == Step::P3 && inode.content == Content::Part => rules.objects + 1,
            _ => 1,
        }
    }

    /// Returns the state after the next step of process `me`; `None` if it waits for another.
    pub(crate) fn step(
        &self,
        rules: &Rules,
        me: usize,
        choice: u8,
        passed: &mut Passed,
    ) -> Option<Self> {
        let Doing::At(protocol, index) = self.processes[me].doing else {
            return None;
        };
        let step = rules.steps.list(protocol)[usize::from(index)];
        let mut operation = Operation {
            rules,
            state: self.clone(),
            me,
            passed,
        };
        let next = match protocol {
            Protocol::Publish => operation.publish(step, choice),
            Protocol::Map => operation.map(step),
            Protocol::Reclaim => operation.reclaim(step),
            Protocol::Quarantine => operation.quarantine(step),
        };
        match next {
            Next::Wait => return None,
            Next::Same | Next::Decided => {}
            Next::On => operation.advance(protocol, index + 1),
            Next::To(step) => match rules.steps.position(protocol, step) {
                Some(index) => operation.go(protocol, index),
                None => operation.end(protocol, Ending::Error),
            },
            Next::End(ending) => operation.end(protocol, ending),
        }
        Some(operation.finish())
    }

    /// Starts an operation of process `me`.
    pub(crate) fn begin(&self, rules: &Rules, me: usize, object: u8, protocol: Protocol) -> Self {
        let mut state = self.clone();
        let process = &mut state.processes[me];
        process.left -= 1;
        process.object = object;
        let mut operation = Operation {
            rules,
            state,
            me,
            passed: &mut Passed::new(),
        };
        operation.start(protocol);
        operation.finish()
    }

    /// Unmaps the object of process `me`.
    pub(crate) fn release(&self, rules: &Rules, me: usize) -> Self {
        let mut operation = Operation {
            rules,
            state: self.clone(),
            me,
            passed: &mut Passed::new(),
        };
        if let Some(file) = &mut operation.me().file {
            file.mapped = false;
            if !file.open {
                operation.me().file = None;
            }
        }
        operation.rest();
        operation.finish()
    }

    /// Kills process `me`; another one of its role takes its place.
    pub(crate) fn crash(&self, rules: &Rules, me: usize) -> Self {
        let mut state = self.clone();
        let old = state.processes[me];
        if rules.is(Variant::CountedReferences) {
            for description in old.descriptions() {
                let read = description.lock == Lock::Read;
                state.files.inode_mut(description.inode).counted |= read;
            }
        }
        state.processes[me] = Process::new(old.role, old.left);
        state.crashes -= 1;
        state.crashed = true;
        state.sweep();
        state
    }

    /// Frees inodes without references.
    fn sweep(&mut self) {
        let mut used = [false; crate::files::INODES];
        let descriptions = self.processes.iter().flat_map(Process::descriptions);
        for description in descriptions {
            used[usize::from(description.inode)] = true;
        }
        for (inode, used) in self.files.inodes.iter_mut().zip(used) {
            if !used && inode.is_some_and(|inode| inode.links == 0) {
                *inode = None;
            }
        }
    }
}

impl Operation<'_> {
    fn me(&mut self) -> &mut Process {
        &mut self.state.processes[self.me]
    }

    fn finish(mut self) -> State {
        self.state.sweep();
        self.state
    }

    fn pass(&mut self, step: Step) -> Next {
        self.passed.push(step);
        Next::On
    }

    fn go(&mut self, protocol: Protocol, index: u8) {
        self.me().doing = Doing::At(protocol, index);
    }

    fn start(&mut self, protocol: Protocol) {
        self.me().attempts = 0;
        self.go(protocol, 0);
    }

    fn advance(&mut self, protocol: Protocol, index: u8) {
        if usize::from(index) < self.rules.steps.list(protocol).len() {
            self.me().doing = Doing::At(protocol, index);
            return;
        }
        match protocol {
            Protocol::Map if self.me().publishing => {
                self.pass(Step::P8);
                match self.rules.steps.position(Protocol::Publish, Step::P8) {
                    Some(index) => self.advance(Protocol::Publish, index + 1),
                    None => self.hold(),
                }
            }
            Protocol::Publish | Protocol::Map => self.hold(),
            Protocol::Quarantine if self.me().publishing => self.link_again(),
            Protocol::Reclaim | Protocol::Quarantine => self.rest(),
        }
    }

    fn end(&mut self, protocol: Protocol, ending: Ending) {
        let publishing = self.me().publishing;
        match (protocol, ending) {
            (Protocol::Map, _) if !publishing => {
                // Publishing finds the actual reason.
                self.let_go(Slot::File);
                self.start(Protocol::Publish);
            }
            (Protocol::Map, Ending::Damaged) => {
                self.let_go(Slot::File);
                self.start(Protocol::Quarantine);
            }
            (Protocol::Map | Protocol::Quarantine, Ending::Absent) if publishing => {
                self.let_go(Slot::File);
                self.me().alone = false;
                self.link_again();
            }
            _ => {
                let loader = self.me().role == Role::Loader;
                self.fail(loader && ending == Ending::Error);
            }
        }
    }

    /// Goes back to P7, unless the lost name was that of our own file.
    fn link_again(&mut self) {
        self.me().attempts = 0;
        if self.me().linked && !self.rules.is(Variant::LinkAgain) {
            let staging = self.me().staging;
            let inode = staging.map(|staging| *self.state.files.inode(staging.inode));
            let hurt =
                inode.is_some_and(|inode| inode.quarantined || inode.content == Content::Damaged);
            return self.fail(!hurt);
        }
        match self.rules.steps.position(Protocol::Publish, Step::P7) {
            None => self.fail(true),
            Some(_) if self.me().links >= LINKS => self.fail(false),
            Some(index) => self.go(Protocol::Publish, index),
        }
    }

    fn hold(&mut self) {
        let me = self.me();
        me.doing = Doing::Holds;
        (me.publishing, me.linked) = (false, false);
        (me.attempts, me.links) = (0, 0);
    }

    fn rest(&mut self) {
        let me = self.me();
        *me = Process {
            object: if me.alone { me.object } else { 0 },
            alone: me.alone,
            staging: me.staging,
            file: me.file,
            ..Process::new(me.role, me.left)
        };
    }

    /// Gives the operation up, and closes its descriptors.
    fn fail(&mut self, refused: bool) {
        self.let_go(Slot::File);
        self.let_go(Slot::Staging);
        self.me().alone = false;
        self.state.refused |= refused;
        self.rest();
    }

    /// Closes and retries from `step`, or ends without the object.
    fn retry(&mut self, step: Step, endless: bool) -> Next {
        self.let_go(Slot::File);
        self.me().attempts += 1;
        // One attempt beyond the limit suffices for the check.
        if endless {
            self.me().attempts = self.me().attempts.min(ATTEMPTS + 1);
        } else if self.me().attempts >= ATTEMPTS {
            return Next::End(Ending::Absent);
        }
        Next::To(step)
    }
}

mod descriptors;
mod map;
mod publish;
mod quarantine;
mod reclaim;
