//! Requests of the made files.

use tetris_simulation::traces::{Factor, RecordedTrace, RunRequest, TraceFormat, Window};

use super::read;

const SECONDS_2021: u64 = 600;

fn counts(trace: &RecordedTrace) -> Vec<(&str, u64)> {
    let functions = trace.functions().iter();
    let mut counts: Vec<_> = functions
        .map(|function| (function.name(), function.requests()))
        .collect();
    counts.sort_unstable();
    counts
}

/// Requests of a function in a run as long as the window.
fn requests(trace: &RecordedTrace, name: &str, window: Window) -> Vec<RunRequest> {
    let mut functions = trace.functions().iter();
    let function = functions.find(|function| function.name() == name).unwrap();
    function.run(window, window.seconds(), Factor::ONE, 1, 0)
}

#[test]
fn functions_of_2019_have_the_counts_of_the_windows_minutes() {
    let name = "azure-functions-2019.csv";
    let whole = read(name, 0, 600);
    assert_eq!(whole.format(), TraceFormat::AzureFunctions2019);
    let expected = [
        ("o1/a1/rising", 90),
        ("o1/a1/steady", 60),
        ("o2/a2/burst", 80),
        ("o2/a3/steady", 120),
        ("o3/a4/once", 1),
    ];
    assert_eq!(counts(&whole), expected);
    // The fourth minute, and half of the fifth.
    let part = read(name, 3, 90);
    let expected = [
        ("o1/a1/rising", 6 + 4),
        ("o1/a1/steady", 6 + 3),
        ("o2/a2/burst", 50 + 15),
        ("o2/a3/steady", 12 + 7),
    ];
    assert_eq!(counts(&part), expected);
}

#[test]
fn requests_of_a_minute_come_within_it() {
    let (trace, window) = (
        read("azure-functions-2019.csv", 0, 600),
        Window::new(0, 600),
    );
    let burst = requests(&trace, "o2/a2/burst", window);
    let in_minute = |minute: u64| {
        let times = burst.iter().map(|request| request.at_us / 60_000_000);
        times.filter(|&of_request| of_request == minute).count()
    };
    assert_eq!((burst.len(), in_minute(3), in_minute(4)), (80, 50, 30));
    assert!(burst.is_sorted() && burst.iter().all(|request| request.duration_ms.is_none()));
}

#[test]
fn invocations_of_2021_start_a_duration_before_their_end() {
    let (trace, window) = (
        read("azure-functions-2021.csv", 0, SECONDS_2021),
        Window::new(0, SECONDS_2021),
    );
    assert_eq!(trace.format(), TraceFormat::AzureFunctions2021);
    // Of a2/f1 the invocation that began before the file's zero is missing.
    let expected = [("a1/f1", 24), ("a1/f2", 20), ("a2/f1", 12), ("a3/f1", 5)];
    assert_eq!(counts(&trace), expected);
    let starts: Vec<_> = requests(&trace, "a1/f2", window);
    let expected = (0..20).map(|number| RunRequest {
        at_us: 120_000_000 + number * 1_500_000,
        duration_ms: Some(2_500),
    });
    assert!(starts.into_iter().eq(expected));
    let third = read("azure-functions-2021.csv", 2, 60);
    assert_eq!(counts(&third), [("a1/f1", 2), ("a1/f2", 20), ("a2/f1", 2)]);
}

#[test]
fn burstgpt_has_its_models_and_newer_files_durations() {
    let (trace, window) = (read("burstgpt.csv", 2, 60), Window::new(2, 60));
    assert_eq!(trace.format(), TraceFormat::BurstGpt);
    // Failed requests, without an answer, are requests as well.
    assert_eq!(counts(&trace), [("ChatGPT", 30)]);
    let times: Vec<u64> = requests(&trace, "ChatGPT", window)
        .iter()
        .map(|request| request.at_us)
        .collect();
    assert_eq!(times[..4], [10_000_000, 10_000_000, 10_000_000, 12_000_000]);

    let newer = Window::new(324_002, 300);
    let trace = read("burstgpt-newer.csv", 324_002, 300);
    assert_eq!(counts(&trace), [("ChatGPT", 29), ("GPT-4", 2)]);
    let large = requests(&trace, "GPT-4", newer);
    let expected = [(0, Some(43_000)), (82_000_000, Some(10_000))]
        .map(|(at_us, duration_ms)| RunRequest { at_us, duration_ms });
    assert_eq!(large, expected);
    let small = requests(&trace, "ChatGPT", newer);
    // Rows of the interface have no elapsed time.
    assert_eq!(
        (small[0].duration_ms, small[1].duration_ms),
        (Some(2_000), None)
    );
}

#[test]
fn a_shorter_run_compresses_times_but_no_durations() {
    let trace = read("azure-functions-2021.csv", 0, 600);
    let mut functions = trace.functions().iter();
    let function = functions
        .find(|function| function.name() == "a2/f1")
        .unwrap();
    let requests = function.run(Window::new(0, 600), 60, Factor::ONE, 1, 0);
    let first = RunRequest {
        at_us: 3_000_000,
        duration_ms: Some(30_000),
    };
    assert_eq!((requests[0], requests.len()), (first, 12));
}
