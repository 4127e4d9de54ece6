//! Invariants of every state (LAYOUT.md 6).

use crate::files::{Content, Lock, Mode};
use crate::model::Model;
use crate::operation::{ATTEMPTS, LINKS, Rules, State};
use crate::process::{Doing, Passed, Process, Role};
use crate::solo;
use crate::step::{Protocol, Step};

/// A condition that holds in every state.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    /// Returns true if it holds.
    pub holds: fn(&Model, &State) -> bool,
}

/// INV-1: a name leads to all bytes of its object.
pub const BYTES: &str = "INV-1 a name leads to complete, correct bytes";
/// INV-2.
pub const SEALED: &str = "INV-2 a named file is never written";
/// INV-2, its other half: only the owner could write anyway.
pub const MODE: &str = "INV-2 a named object is 0444, except during R1";
/// INV-3.
pub const NAMED: &str = "INV-3 a mapped object has its name";
/// INV-3, its purpose.
pub const ONE_COPY: &str = "INV-3 no second copy of an object is mapped";
/// INV-4.
pub const RECLAIMABLE: &str = "INV-4 an unreferenced object can be reclaimed";
/// INV-5.
pub const NO_LEAK: &str = "INV-5 only a running operation has a file without a name";
/// INV-9.
pub const HELD: &str = "INV-9 a returned object is mapped, locked and correct";
/// LAYOUT.md 5: operations are bounded and never wait for another.
pub const ENDS: &str = "every operation ends in any interleaving";
/// Purpose of the store.
pub const SHARED: &str = "a load ends in the store unless the protocol allows otherwise";
/// LAYOUT.md 5.5.
pub const QUARANTINED: &str =
    "a quarantined file has no name left, and every object can be quarantined";

/// All invariants.
pub const ALL: [Invariant; 11] = [
    invariant(BYTES, bytes),
    invariant(SEALED, |_, state| !state.written_after_naming),
    invariant(MODE, mode),
    invariant(NAMED, named),
    invariant(ONE_COPY, one_copy),
    invariant(RECLAIMABLE, reclaimable),
    invariant(NO_LEAK, no_leak),
    invariant(HELD, held),
    invariant(ENDS, ends),
    invariant(SHARED, |_, state| !state.refused),
    invariant(QUARANTINED, quarantined),
];

const fn invariant(name: &'static str, holds: fn(&Model, &State) -> bool) -> Invariant {
    Invariant { name, holds }
}

/// Named objects, each with its inode.
fn names(state: &State) -> impl Iterator<Item = (u8, u8)> {
    let names = (0u8..).zip(state.files.objects);
    names.filter_map(|(object, inode)| Some((object, inode?)))
}

fn bytes(_: &Model, state: &State) -> bool {
    names(state).all(|(object, inode)| {
        let content = state.files.inode(inode).content;
        content == Content::Whole(object) || content == Content::Damaged
    })
}

fn mode(model: &Model, state: &State) -> bool {
    let at_r1 = |process: &Process| match process.doing {
        Doing::At(Protocol::Reclaim, index) => {
            model.rules.steps.list(Protocol::Reclaim)[usize::from(index)] == Step::R1
        }
        _ => false,
    };
    let excused = state.crashed || state.processes.iter().any(at_r1);
    names(state).all(|(_, inode)| match state.files.inode(inode).mode {
        Mode::Sealed => true,
        Mode::Writable => excused,
        Mode::Staged => false,
    })
}

fn named(_: &Model, state: &State) -> bool {
    let mut mapped = state.processes.iter().filter_map(Process::mapped);
    mapped.all(|inode| {
        let file = state.files.inode(inode);
        file.quarantined || names(state).any(|(_, named)| named == inode)
    })
}

fn one_copy(_: &Model, state: &State) -> bool {
    let mapped = state.processes.iter().filter_map(Process::mapped);
    let mut seen = [None; crate::files::OBJECTS];
    for inode in mapped.filter(|&inode| !state.files.inode(inode).quarantined) {
        if let Content::Whole(object) = state.files.inode(inode).content
            && seen[usize::from(object)]
                .replace(inode)
                .is_some_and(|other| other != inode)
        {
            return false;
        }
    }
    true
}

/// Returns true if a process holds `inode` or has an operation on it.
fn in_use(state: &State, inode: u8) -> bool {
    state.processes.iter().any(|process| {
        let mut refers = process
            .descriptions()
            .filter(|description| description.inode == inode);
        refers.any(|description| description.mapped || process.is_busy())
    })
}

fn reclaimable(model: &Model, state: &State) -> bool {
    names(state).all(|(object, inode)| {
        in_use(state, inode) || {
            let (after, _) = solo::run(&model.rules, state, Protocol::Reclaim, object);
            after.files.lookup(object).is_none() && after.files.inodes[usize::from(inode)].is_none()
        }
    })
}

fn no_leak(_: &Model, state: &State) -> bool {
    let inodes = (0u8..).zip(state.files.inodes);
    let mut existing = inodes.filter(|(_, inode)| inode.is_some());
    existing.all(|(index, _)| {
        let files = &state.files;
        let mut named = files.objects.iter().chain(&files.quarantine).flatten();
        named.any(|&inode| inode == index) || in_use(state, index)
    })
}

fn held(_: &Model, state: &State) -> bool {
    let mut holding = state
        .processes
        .iter()
        .filter(|process| process.doing == Doing::Holds);
    holding.all(|process| {
        process.file.is_some_and(|file| {
            let content = state.files.inode(file.inode).content;
            let right = content == Content::Whole(process.object) || content == Content::Damaged;
            file.mapped && file.lock == Lock::Read && right
        })
    })
}

fn ends(model: &Model, state: &State) -> bool {
    (0..).zip(&state.processes).all(|(me, process)| {
        let bounded = process.attempts <= ATTEMPTS && process.links <= LINKS;
        let rules: &Rules = &model.rules;
        let goes_on = || state.step(rules, me, 0, &mut Passed::new()).is_some();
        bounded && (!process.is_busy() || goes_on())
    })
}

fn quarantined(model: &Model, state: &State) -> bool {
    let mut scrubbers = state
        .processes
        .iter()
        .filter(|process| process.role == Role::Scrubber);
    let scrubbed = scrubbers.next().is_some();
    names(state).all(|(object, inode)| {
        if state.files.inode(inode).quarantined {
            return false;
        }
        let busy = state.processes.iter().any(Process::is_busy);
        // This matters only with a scrubber.
        !scrubbed || busy || {
            let (after, _) = solo::run(&model.rules, state, Protocol::Quarantine, object);
            after.files.lookup(object).is_none()
        }
    })
}
