//! Choice of functions, and requests of a run.

use std::collections::BTreeMap;

use tetris_simulation::traces::{Factor, Limits, RunLoad, SampleRule, TraceSample, Window};

use super::{read, read_text};

const EVERY: SampleRule = SampleRule {
    functions: None,
    min_requests: 1,
};

fn names(sample: &TraceSample) -> Vec<&str> {
    let functions = sample.functions().iter();
    functions.map(|function| function.name()).collect()
}

/// A file of 2019 with `functions` functions, in this order or the reverse.
fn many(functions: usize, reverse: bool) -> String {
    let mut rows: Vec<_> = (0..functions)
        .map(|number| format!("o,a,f{number},http,1\n"))
        .collect();
    if reverse {
        rows.reverse();
    }
    format!(
        "HashOwner,HashApp,HashFunction,Trigger,1\n{}",
        rows.concat()
    )
}

#[test]
fn a_sample_follows_from_the_seed_and_not_from_the_order_of_rows() {
    let [trace, reversed] =
        [false, true].map(|reverse| read_text(many(100, reverse), &Limits::default()).unwrap());
    let rule = SampleRule {
        functions: Some(5),
        ..EVERY
    };
    let sample = trace.sample(rule, 1, 7).unwrap();
    // The same on every machine.
    let expected = ["o/a/f26", "o/a/f27", "o/a/f81", "o/a/f92", "o/a/f5"];
    assert_eq!(names(&sample), expected);
    assert_eq!(names(&sample), names(&reversed.sample(rule, 1, 7).unwrap()));
    assert_ne!(names(&sample), names(&trace.sample(rule, 1, 8).unwrap()));
}

#[test]
fn each_function_is_chosen_as_often_as_any_other() {
    let trace = read_text(many(10, false), &Limits::default()).unwrap();
    let mut chosen = BTreeMap::new();
    for seed in 0..1_000 {
        for function in trace.sample(EVERY, 3, seed).unwrap().functions() {
            *chosen.entry(function.name().to_owned()).or_insert(0_u32) += 1;
        }
    }
    // 300 of each; five standard deviations.
    assert_eq!(chosen.len(), 10);
    assert!(
        chosen.values().all(|times| (227..=373).contains(times)),
        "{chosen:?}"
    );
}

#[test]
fn rare_functions_can_be_left_out_and_too_few_are_an_error() {
    let trace = read("azure-functions-2019.csv", 0, 600);
    let busy = |functions| SampleRule {
        functions,
        min_requests: 61,
    };
    let sample = trace.sample(busy(None), 10, 1).unwrap();
    let mut of_sample = names(&sample);
    of_sample.sort_unstable();
    assert_eq!(of_sample, ["o1/a1/rising", "o2/a2/burst", "o2/a3/steady"]);
    let error = trace.sample(busy(Some(4)), 10, 1).unwrap_err().to_string();
    let expected = "expected 4 or more functions with at least 61 requests, found 3";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn seconds_of_a_run_have_the_counts_of_their_part_of_the_window() {
    let trace = read("azure-functions-2019.csv", 0, 600);
    let rule = SampleRule {
        functions: Some(1),
        min_requests: 100,
    };
    let sample = trace.sample(rule, 1, 1).unwrap();
    assert_eq!(names(&sample), ["o2/a3/steady"]);
    let level = |seconds: u64, requests: u128| requests * u128::from(60 * seconds);
    // Two minutes of 12 and 12, 11 and 12, 13 and 12 requests, and so on, in each second.
    let expected = [24, 23, 25, 24, 24].map(|requests| level(5, requests));
    assert_eq!(sample.load(0, 1, 5), RunLoad::PerSecond(expected.to_vec()));
    let RunLoad::PerSecond(levels) = sample.load(0, 1, 600) else {
        panic!("expected levels");
    };
    assert_eq!(levels[0], level(600, 12) / 60);
    assert_eq!(levels[150], level(600, 11) / 60);
    assert_eq!(levels.iter().sum::<u128>(), level(600, 120));
    // A run of 7 seconds cuts minutes, and keeps their sum.
    let RunLoad::PerSecond(cut) = sample.load(0, 1, 7) else {
        panic!("expected levels");
    };
    assert_eq!(cut.iter().sum::<u128>(), level(7, 120));
}

#[test]
fn functions_are_dealt_in_turn_and_shared_if_there_are_too_few() {
    let sample = read("azure-functions-2021.csv", 0, 600)
        .sample(EVERY, 10, 1)
        .unwrap();
    let dealt = |slot, slots| {
        let functions = sample.dealt(slot, slots);
        functions
            .map(|function| function.name().to_owned())
            .collect::<Vec<_>>()
    };
    let all = names(&sample);
    assert_eq!(dealt(0, 3), [all[0], all[3]]);
    assert_eq!(dealt(1, 3), [all[1]]);
    assert_eq!((dealt(4, 6), dealt(5, 6)), (dealt(0, 6), dealt(1, 6)));
    let RunLoad::Times(times) = sample.load(0, 1, 600) else {
        panic!("expected times");
    };
    assert!(times.is_sorted() && times.len() == 61);
}

#[test]
fn a_scaled_run_has_the_asked_mean() {
    for (name, start, requests) in [
        ("azure-functions-2019.csv", 0, 351),
        ("azure-functions-2021.csv", 0, 61),
        ("burstgpt.csv", 0, 47),
    ] {
        let (trace, window) = (read(name, start, 540), Window::new(start, 540));
        let sample = trace.sample(EVERY, 10, 1).unwrap();
        assert!(sample.requests() <= requests);
        for (micro_rps, expected) in [(50_000, 180), (2_000_000, 7_200)] {
            let factor = Factor::to_mean(sample.requests(), micro_rps, 3_600);
            let functions = sample.functions().iter().zip(0..);
            let run = functions
                .flat_map(|(function, stream)| function.run(window, 3_600, factor, 3, stream));
            let run: Vec<_> = run.collect();
            // Each function's own number is right up to a request.
            let off = (run.len() as u64).abs_diff(expected);
            assert!(
                off <= sample.functions().len() as u64,
                "{name}: {} {expected}",
                run.len()
            );
            assert!(
                run.iter().all(|request| request.at_us < 3_600_000_000),
                "{name}"
            );
        }
    }
}

#[test]
fn json_describes_a_sample() {
    let sample = read("burstgpt.csv", 0, 540).sample(EVERY, 2, 1).unwrap();
    let json = serde_json::to_value(&sample).unwrap();
    assert_eq!(json["format"], "burstgpt");
    assert_eq!(json["window"]["seconds"], 540);
    assert_eq!(json["functions"].as_array().unwrap().len(), 2);
    assert!(json["path"].as_str().unwrap().ends_with("burstgpt.csv"));
    assert!(
        sample.about().starts_with("2 of 2 functions of "),
        "{}",
        sample.about()
    );
}
