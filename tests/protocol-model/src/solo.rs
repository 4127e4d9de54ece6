//! Runs of one process while all others stand still.

use crate::operation::{Rules, State};
use crate::process::{Doing, Passed, Process, Role};
use crate::step::Protocol;

/// Upper limit of the steps of an operation.
const STEPS_MAX: u32 = 200;

/// Lets one more process execute `protocol` for `object`, alone. Returns the state at its end or at
/// a wait, and the completed steps.
pub fn run(rules: &Rules, state: &State, protocol: Protocol, object: u8) -> (State, Passed) {
    let role = match protocol {
        Protocol::Reclaim => Role::Reclaimer,
        Protocol::Quarantine => Role::Scrubber,
        Protocol::Publish | Protocol::Map => Role::Loader,
    };
    let mut state = state.clone();
    let me = state.processes.len();
    state.processes.push(Process::new(role, 1));
    let mut state = state.begin(rules, me, object, protocol);
    let mut passed = Passed::new();
    for _ in 0..STEPS_MAX {
        if !matches!(state.processes[me].doing, Doing::At(..)) {
            break;
        }
        // With a choice, the process writes this object's bytes.
        let choice = if state.choices(rules, me) > 1 {
            object
        } else {
            0
        };
        match state.step(rules, me, choice, &mut passed) {
            Some(next) => state = next,
            None => break,
        }
    }
    (state, passed)
}
