//! Every committed seed of the fuzz targets `wire` and `mirror_session`, through the check that the
//! target runs, without a fuzzer.

use crate::mirror::LONG;
use crate::replay::{committed, replay};
use crate::{mirror_session, mirror_session_seeds, wire_check, wire_seeds};

#[test]
fn wire_seeds_are_judged_as_their_names_say() {
    replay("wire", &wire_seeds::seeds(), |bytes| {
        let _judged = wire_check::check(&wire_check::repaired(bytes));
        wire_check::check(bytes).is_ok()
    });
}

#[test]
fn the_seeds_have_a_message_of_every_kind() {
    let seeds = committed("wire");
    for (name, messages) in [
        ("valid-daemon-messages", 24),
        ("valid-gpu-requests", 12),
        ("valid-gpu-replies", 20),
        ("valid-preamble-alone", 0),
    ] {
        assert_eq!(wire_check::check(&seeds[name]).unwrap(), messages, "{name}");
    }
}

#[test]
fn sessions_are_judged_as_their_names_say_and_leave_nothing_behind() {
    let site = mirror_session::Site::new(LONG);
    let copied = site.copied();
    replay("mirror_session", &mirror_session_seeds::seeds(), |bytes| {
        site.check(bytes)
    });
    assert!(site.copied() > copied, "no model of a session was copied");
}
