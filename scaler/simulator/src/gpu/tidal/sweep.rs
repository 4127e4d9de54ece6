//! Assumptions that are varied, one at a time.

use tetris_simulation::TraceKind;

use super::functions::FunctionKind;
use super::setting::{GpuRoom, KeepAlive, Scheduling, TemplateSetting, TidalSetting};

/// Megabytes of a GPU for weights, beside contexts and caches, where instances share it.
const SHARED_MB: u64 = 44_000;

/// Settings with their difference from the main one.
pub(super) fn cases(main: &TidalSetting) -> Vec<(String, TidalSetting)> {
    let mut cases: Vec<(String, TidalSetting)> = Vec::new();
    let mut add = |case: String, change: &dyn Fn(&mut TidalSetting)| {
        let mut setting = main.clone();
        change(&mut setting);
        cases.push((case, setting));
    };
    for percent in [20, 40, 60, 80, 90, 110, 120, 140] {
        let per_minute = main.per_minute * percent / 100;
        add(format!("{per_minute} requests/min"), &|one| {
            one.per_minute = per_minute;
        });
    }
    for seed in 1..=4 {
        let seed = main.seed + seed;
        add(format!("seed {seed}"), &|one| one.seed = seed);
    }
    for trace in [TraceKind::Stable, TraceKind::Periodic] {
        add(format!("{trace} traces"), &|one| one.trace = trace);
    }
    for rates in [[1, 1, 1], [1, 3, 9], [1, 10, 100]] {
        let [low, medium, high] = rates;
        add(format!("rates {low}:{medium}:{high}"), &|one| {
            one.rates = rates;
        });
    }
    for turn in [1, 2] {
        add(format!("rates turned by {turn}"), &|one| one.turn = turn);
    }
    for (case, room) in [
        ("GPUs hold instances of 44 GB", GpuRoom::Held(SHARED_MB)),
        ("the same, idle ones can go", GpuRoom::Evictable(SHARED_MB)),
    ] {
        add(case.to_owned(), &|one| one.room = room);
    }
    for (case, scheduling) in [
        ("first come, first served", Scheduling::Fifo),
        ("LALBO3", Scheduling::Lalbo3),
    ] {
        add(case.to_owned(), &|one| one.scheduling = scheduling);
    }
    for tokens in [10, 99] {
        add(format!("{tokens} tokens after the first"), &|one| {
            one.more_tokens = tokens;
        });
    }
    add("ServerlessLLM's router: 1 s".to_owned(), &|one| {
        one.router_us = 1_000_000;
    });
    for kind in FunctionKind::ALL {
        if kind != main.templates.kind {
            add(format!("templates of {}", kind.name()), &|one| {
                one.templates.kind = kind;
            });
        }
    }
    add("templates of 3 GB for each function".to_owned(), &|one| {
        one.templates = TemplateSetting {
            shared: false,
            ..one.templates
        };
    });
    for percent in [20, 50, 80] {
        let per_minute = main.per_minute * percent / 100;
        add(format!("10 s, {per_minute} requests/min"), &|one| {
            one.keep_alive = KeepAlive::Seconds(10);
            one.per_minute = per_minute;
        });
    }
    add("10 s, 44 GB, idle ones can go".to_owned(), &|one| {
        one.keep_alive = KeepAlive::Seconds(10);
        one.room = GpuRoom::Evictable(SHARED_MB);
    });
    cases
}
