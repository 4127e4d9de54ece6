//! Every committed seed of the fuzz targets of the daemon, through the check that the target runs, without a fuzzer.

use std::time::Duration;

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{daemon_session, node_message, persisted_state, seeds};
use tetris_test_support::alone::alone;

#[test]
fn sessions_are_judged_as_their_names_say_and_leave_nothing_behind() {
    if !alone() {
        return;
    }
    let site = daemon_session::Site::new(Duration::from_mins(1));
    replay("daemon_session", &seeds::daemon_session::seeds(), |bytes| {
        site.check(bytes)
    });
    assert!(site.served() > 0, "no file of a session was published");
}

#[test]
fn persisted_state_is_judged_as_the_seeds_names_say() {
    let site = persisted_state::Site::default();
    replay(
        "persisted_state",
        &seeds::persisted_state::seeds(),
        |bytes| site.check(bytes),
    );
}

#[test]
fn messages_between_processes_are_judged_as_their_names_say() {
    replay(
        "node_message",
        &seeds::node_message::seeds(),
        node_message::check,
    );
}

#[test]
fn a_message_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, input) in seeds::node_message::heavy() {
        let refused = name == "models" && !node_message::check(&input);
        assert!(refused || node_message::check(&input), "{name}");
    }
}
