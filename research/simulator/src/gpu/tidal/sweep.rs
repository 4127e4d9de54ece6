//! Assumptions that are varied, one at a time.

use tetris_simulation::TraceKind;

use super::kind::FunctionKind;
use super::setting::{GpuRoom, KeepAlive, Scheduling, TemplateSetting, TidalSetting};

/// Megabytes of a GPU for weights, beside contexts and caches, where instances share it.
const SHARED_MB: u64 = 44_000;

/// Settings with their difference from the main one. They are a third as long.
pub(super) fn cases(main: &TidalSetting) -> Vec<(String, TidalSetting)> {
    let main = &TidalSetting {
        seconds: (main.seconds / 3).max(60),
        ..main.clone()
    };
    let mut cases: Vec<(String, TidalSetting)> = Vec::new();
    let mut add = |case: String, change: &dyn Fn(&mut TidalSetting)| {
        let mut setting = main.clone();
        change(&mut setting);
        cases.push((case, setting));
    };
    for percent in [20, 40, 60, 80, 90, 110, 120, 140] {
        let per_minute = main.per_minute * percent / 100;
        add(format!("{per_minute} requests/min"), &|entry| {
            entry.per_minute = per_minute;
        });
    }
    add("no change".to_owned(), &|_| {});
    for seed in 1..=4 {
        let seed = main.seed.wrapping_add(seed);
        add(format!("seed {seed}"), &|entry| entry.seed = seed);
    }
    for trace in [TraceKind::Stable, TraceKind::Periodic] {
        add(format!("{trace} traces"), &|entry| entry.trace = trace);
    }
    for rates in [[1, 1, 1], [1, 3, 9], [1, 10, 100]] {
        let [low, medium, high] = rates;
        add(format!("rates {low}:{medium}:{high}"), &|entry| {
            entry.rates = rates;
        });
    }
    for turn in [1, 2] {
        add(format!("rates turned by {turn}"), &|entry| {
            entry.turn = turn;
        });
    }
    for (case, room, holds_idle) in [
        ("idle instances stay", GpuRoom::OneInstance, true),
        ("44 GB for instances", GpuRoom::Shared(SHARED_MB), false),
        ("the same, idle ones stay", GpuRoom::Shared(SHARED_MB), true),
    ] {
        add(case.to_owned(), &|entry| {
            entry.room = room;
            entry.holds_idle = holds_idle;
        });
    }
    for (case, scheduling) in [
        ("first come, first served", Scheduling::Fifo),
        ("LALBO3", Scheduling::Lalbo3),
    ] {
        add(case.to_owned(), &|entry| entry.scheduling = scheduling);
    }
    for (tokens, percent) in [(10, 100), (99, 30)] {
        let per_minute = main.per_minute * percent / 100;
        add(
            format!("{tokens} more tokens, {per_minute} requests/min"),
            &|entry| {
                entry.more_tokens = tokens;
                entry.per_minute = per_minute;
            },
        );
    }
    for percent in [20, 100] {
        let per_minute = main.per_minute * percent / 100;
        add(
            format!("router of 1 s, {per_minute} requests/min"),
            &|entry| {
                entry.router_us = 1_000_000;
                entry.per_minute = per_minute;
            },
        );
    }
    for kind in FunctionKind::ALL {
        if kind != main.templates.kind {
            add(format!("templates of {}", kind.name()), &|entry| {
                entry.templates.kind = kind;
            });
        }
    }
    add("templates of 3 GB for each function".to_owned(), &|entry| {
        entry.templates = TemplateSetting {
            shared: false,
            ..entry.templates
        };
    });
    for (percent, room, holds_idle) in [
        (50, GpuRoom::OneInstance, false),
        (20, GpuRoom::OneInstance, true),
        (50, GpuRoom::OneInstance, true),
        (100, GpuRoom::Shared(SHARED_MB), false),
        (100, GpuRoom::Shared(SHARED_MB), true),
    ] {
        let per_minute = main.per_minute * percent / 100;
        let room_name = match room {
            GpuRoom::OneInstance => "",
            GpuRoom::Shared(_) => ", 44 GB",
        };
        let stay = if holds_idle { ", idle ones stay" } else { "" };
        add(
            format!("10 s, {per_minute}/min{room_name}{stay}"),
            &|entry| {
                entry.keep_alive = KeepAlive::Seconds(10);
                entry.per_minute = per_minute;
                entry.room = room;
                entry.holds_idle = holds_idle;
            },
        );
    }
    cases
}
