//! The protocols of LAYOUT.md keep every invariant in every state that a few processes can reach.

use std::io::Write;

use tetris_protocol_model::model::mixes;

#[test]
fn every_invariant_holds_in_every_state() {
    for (what, model) in mixes() {
        let report = model.check();
        let line = format!(
            "{what}: {} states, longest run {}\n",
            report.states, report.depth
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
        assert!(report.broken.is_empty(), "{what}: {:#?}", report.broken);
    }
}
