//! Every committed seed of the fuzz targets `wire` and `mirror_session`, through the check that the
//! target runs, without a fuzzer.

use std::time::Duration;

use tetris_fuzz_checks::replay::{committed, replay};
use tetris_fuzz_checks::{mirror_session, seeds, wire};

#[test]
fn wire_seeds_are_judged_as_their_names_say() {
    replay("wire", &seeds::wire::seeds(), |bytes| {
        let _judged = wire::check(&wire::repaired(bytes));
        wire::check(bytes).is_ok()
    });
}

#[test]
fn the_seeds_have_a_message_of_every_kind() {
    let seeds = committed("wire");
    for (name, messages) in [
        ("valid-daemon-messages", 33),
        ("valid-gpu-requests", 12),
        ("valid-gpu-replies", 20),
        ("valid-preamble-alone", 0),
    ] {
        assert_eq!(wire::check(&seeds[name]).unwrap(), messages, "{name}");
    }
}

#[test]
fn sessions_are_judged_as_their_names_say_and_leave_nothing_behind() {
    let site = mirror_session::Site::new(Duration::from_mins(1));
    let copied = site.copied();
    replay("mirror_session", &seeds::mirror_session::seeds(), |bytes| {
        site.check(bytes)
    });
    assert!(site.copied() > copied, "no model of a session was copied");
}
