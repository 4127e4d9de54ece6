//! No step can be omitted, moved or simplified: each time the checker finds a run that breaks a
//! given invariant. Steps that no invariant needs are listed with their reason.

use std::io::Write;

use tetris_protocol_model::invariants::{
    BYTES, ENDS, HELD, MODE, NAMED, NO_LEAK, ONE_COPY, QUARANTINED, RECLAIMABLE, SEALED, SHARED,
};
use tetris_protocol_model::model::{Model, mixes};
use tetris_protocol_model::operation::Rules;
use tetris_protocol_model::step::Step::{
    M1, M2, M3, M4, M5, P1, P2a, P2b, P3, P4, P5, P6, P7, P8, P9, Q1, Q2, Q3, Q4, Q5, Q6, R1, R2,
    R3, R4, R5,
};
use tetris_protocol_model::step::{Protocol, Step, Steps};
use tetris_protocol_model::variant::Variant;

/// Needed steps, each with the invariant that breaks without it.
const NEEDED: [(Step, &str); 24] = [
    (P1, SHARED),
    (P3, SHARED),
    (P4, BYTES),
    (P5, MODE),
    // The kernel gives a file no second first name, so relinking is not just another round.
    (P6, SHARED),
    (P7, SHARED),
    (P8, HELD),
    (P9, RECLAIMABLE),
    (M1, SHARED),
    (M2, NAMED),
    (M3, NAMED),
    (M4, HELD),
    (M5, RECLAIMABLE),
    (R1, RECLAIMABLE),
    (R2, NAMED),
    (R3, NAMED),
    (R4, RECLAIMABLE),
    (R5, NO_LEAK),
    (Q1, NAMED),
    (Q2, QUARANTINED),
    (Q3, NAMED),
    (Q4, NAMED),
    (Q5, QUARANTINED),
    (Q6, QUARANTINED),
];

/// Steps that no invariant needs, and why they are there.
const USEFUL: [(Step, &str); 2] = [
    (
        P2a,
        "P2b sets the length as well; before Linux 6.12 it then allocates small pages",
    ),
    (
        P2b,
        "P3 allocates as well; P2b makes a full store known before anything is read",
    ),
];

/// Steps moved behind others, each with the invariant that breaks.
const MOVED: [(Step, Step, &str); 15] = [
    (P7, P2b, BYTES),
    (P7, P2b, SEALED),
    (P4, P7, BYTES),
    (P5, P7, MODE),
    (P6, P7, SHARED),
    (P9, P6, SHARED),
    (M2, M3, NAMED),
    (M2, M4, NAMED),
    (M3, M4, NAMED),
    (M5, M3, SHARED),
    (R2, R3, NAMED),
    (R2, R4, NAMED),
    (R3, R4, NAMED),
    (Q3, Q4, NAMED),
    (Q4, Q5, NAMED),
];

/// Deviations, each with an invariant that breaks.
const OTHERWISE: [(Variant, &str); 18] = [
    (Variant::StagingHasName, NO_LEAK),
    (Variant::NameFromSource, BYTES),
    (Variant::LengthUnchecked, BYTES),
    (Variant::RenameOver, NAMED),
    (Variant::KeepOwnCopy, ONE_COPY),
    (Variant::LinkAgain, QUARANTINED),
    (Variant::LinkAgain, RECLAIMABLE),
    (Variant::MapWaits, ENDS),
    (Variant::MapRetriesForever, ENDS),
    (Variant::LinkCountUnchecked, ONE_COPY),
    (Variant::ModeNotMended, MODE),
    (Variant::ReclaimWaits, ENDS),
    (Variant::ReclaimReadLock, NAMED),
    (Variant::PosixLocks, NAMED),
    (Variant::LockOfDescriptor, NAMED),
    (Variant::CountedReferences, RECLAIMABLE),
    (Variant::QuarantineLockShared, NAMED),
    (Variant::LinkCountUnchecked, NAMED),
];

/// Deviations that keep all invariants, and the reason for the protocol's choice.
const AS_GOOD: [(Variant, &str); 1] = [(
    Variant::MapStaged,
    "one way to map for all; the reference would hang on a writable description",
)];

fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn with(
    model: Model,
    steps: &Steps,
    variant: Option<Variant>,
    only: Option<&'static str>,
) -> Model {
    let rules = Rules {
        steps: steps.clone(),
        variant,
        ..model.rules
    };
    Model {
        rules,
        only,
        ..model
    }
}

/// Searches the mixes for a run that breaks `invariant`.
fn breaks(what: &str, steps: &Steps, variant: Option<Variant>, invariant: &'static str) {
    for (mix, model) in mixes() {
        let model = with(model, steps, variant, Some(invariant));
        if let [(name, actions)] = &model.check().broken[..] {
            return say(&format!(
                "{what}: {name} is broken after {} actions ({mix})",
                actions.len()
            ));
        }
    }
    panic!("{what}: {invariant} still holds");
}

fn keeps_all(what: &str, steps: &Steps, variant: Option<Variant>, reason: &str) {
    for (mix, model) in mixes() {
        let report = with(model, steps, variant, None).check();
        assert!(
            report.broken.is_empty(),
            "{what}, {mix}: {:#?}",
            report.broken
        );
    }
    say(&format!("{what}: every invariant holds; {reason}"));
}

#[test]
fn every_step_is_listed() {
    let all = Protocol::ALL.iter().flat_map(|protocol| protocol.steps());
    let needed = NEEDED.iter().map(|(step, _)| *step);
    let listed: Vec<_> = needed.chain(USEFUL.iter().map(|(step, _)| *step)).collect();
    for step in all {
        assert!(listed.contains(step), "{step:?}");
    }
}

#[test]
fn no_step_can_be_left_out() {
    for (step, invariant) in NEEDED {
        breaks(
            &format!("without {step:?}"),
            &Steps::without(step),
            None,
            invariant,
        );
    }
}

#[test]
fn what_no_invariant_needs_has_another_reason() {
    for (step, reason) in USEFUL {
        keeps_all(
            &format!("without {step:?}"),
            &Steps::without(step),
            None,
            reason,
        );
    }
    for (variant, reason) in AS_GOOD {
        keeps_all(
            &format!("{variant:?}"),
            &Steps::default(),
            Some(variant),
            reason,
        );
    }
}

#[test]
fn the_order_of_the_steps_matters() {
    for (step, other, invariant) in MOVED {
        let steps = Steps::moved_behind(step, other);
        breaks(
            &format!("{step:?} behind {other:?}"),
            &steps,
            None,
            invariant,
        );
    }
}

#[test]
fn simpler_ways_do_not_do() {
    for (variant, invariant) in OTHERWISE {
        breaks(
            &format!("{variant:?}"),
            &Steps::default(),
            Some(variant),
            invariant,
        );
    }
}
