//! Tests of the largest load within a window.

use proptest::prelude::*;
use tetris_scaler_core::{LoadPeak, Rate};

#[test]
fn a_load_that_falls_is_believed_after_a_window_and_one_that_rises_at_once() {
    let mut peak = LoadPeak::try_new(6_400).unwrap();
    let mut measure = |at_ms: u64, rps: u64| {
        peak.measured(at_ms, Rate::from_rps(rps)).unwrap();
        peak.at(at_ms)
    };
    assert_eq!(measure(0, 50), None);
    assert_eq!(measure(6_300, 20), None);
    assert_eq!(measure(6_400, 20), Some(Rate::from_rps(50)));
    assert_eq!(measure(6_600, 20), Some(Rate::from_rps(20)));
    assert_eq!(measure(6_700, 70), Some(Rate::from_rps(70)));
    assert_eq!(measure(13_000, 10), Some(Rate::from_rps(70)));
    assert_eq!(measure(13_200, 10), Some(Rate::from_rps(10)));
}

#[test]
fn what_is_not_measured_is_not_known() {
    let mut peak = LoadPeak::try_new(6_400).unwrap();
    for at_ms in [0, 3_000, 6_400] {
        peak.measured(at_ms, Rate::ZERO).unwrap();
    }
    assert_eq!(peak.at(6_400), Some(Rate::ZERO));
    assert_eq!(peak.at(12_800), None);
    assert_eq!(peak.at(6_399), None);
    // After a gap, a whole window must pass again.
    peak.measured(12_800, Rate::ZERO).unwrap();
    peak.measured(19_000, Rate::ZERO).unwrap();
    assert_eq!(peak.at(19_199), None);
    assert_eq!(peak.at(19_200), Some(Rate::ZERO));
    let error = peak.measured(18_999, Rate::ZERO).unwrap_err();
    assert_eq!((error.at_ms, error.last_ms), (18_999, 19_000));
    assert_eq!(LoadPeak::try_new(63).unwrap_err().field, "window_ms");
}

proptest! {
    #[test]
    fn the_peak_is_that_of_all_samples_of_the_window(
        steps in proptest::collection::vec((0..3_000_u64, 0..50_u64), 1..200), window_ms in 64..20_000_u64,
    ) {
        let mut peak = LoadPeak::try_new(window_ms).unwrap();
        let (mut now, mut since, mut samples) = (5_000, 0, Vec::<(u64, u64)>::new());
        for (step, rps) in steps {
            if samples.is_empty() || step >= window_ms {
                since = now + step;
                samples.clear();
            }
            now += step;
            samples.push((now, rps));
            peak.measured(now, Rate::from_rps(rps)).unwrap();
            let within = |back: u64| {
                let samples = samples.iter().filter(|(at, _)| *at + back >= now);
                Rate::from_rps(samples.map(|(_, rps)| *rps).max().unwrap())
            };
            match peak.at(now) {
                None => prop_assert!(now - since < window_ms),
                Some(found) => {
                    prop_assert!(now - since >= window_ms);
                    prop_assert!(found >= within(window_ms));
                    prop_assert!(found <= within(window_ms + window_ms.div_ceil(64)));
                }
            }
        }
    }
}
