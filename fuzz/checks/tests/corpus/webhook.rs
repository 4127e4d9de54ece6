//! Every committed seed of the fuzz target `admission_review`, through the check that the target
//! runs, without a fuzzer.

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{admission_review, seeds};
use tetris_webhook::inject::InjectionOutcome;

#[test]
fn reviews_are_judged_as_their_names_say() {
    let mut injected = 0;
    replay(
        "admission_review",
        &seeds::admission_review::seeds(),
        |input| {
            let _outcome = admission_review::check(&admission_review::of_pod(input));
            let outcome = admission_review::check(input);
            injected += u32::from(outcome == Ok(InjectionOutcome::Injected));
            outcome.is_ok()
        },
    );
    assert!(
        injected >= 3,
        "only {injected} seeds of pods that get the store"
    );
}
