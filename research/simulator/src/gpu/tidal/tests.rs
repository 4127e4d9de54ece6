//! Tests of the systems on small traces.

use proptest::prelude::*;

use super::functions::{FUNCTIONS, Function, arrivals};
use super::system::{decode_us, run};
use super::*;

fn setting() -> TidalSetting {
    TidalSetting {
        per_minute: 150,
        seconds: 300,
        ..TidalGrid::default().setting()
    }
}

/// Time of one cold request on idle GPUs until its first token, in microseconds.
fn cold_us(setting: &TidalSetting, system: TidalSystem, function: u32) -> u64 {
    let records = run(setting, system, &[(0, function)]);
    let [record] = records.requests[..] else {
        panic!("{records:?}");
    };
    assert!(record.missed);
    let functions = Function::all();
    record.latency_us.unwrap() - decode_us(setting, &functions[function as usize])
}

#[test]
fn functions_have_each_kind_and_task_once_and_all_rates() {
    let functions = Function::all();
    assert_eq!(functions.len(), FUNCTIONS as usize);
    for turn in 0..3 {
        let rates = TidalSetting { turn, ..setting() };
        let all = arrivals(&rates);
        let counts: Vec<usize> = (0..FUNCTIONS)
            .map(|function| all.iter().filter(|arrival| arrival.1 == function).count())
            .collect();
        // High rates are five times the medium ones, and those five times the low ones.
        let high = counts.iter().filter(|&&count| count > 60).count();
        let low = counts.iter().filter(|&&count| count < 14).count();
        assert!((5..=6).contains(&high) && low >= 5, "{counts:?}");
    }
}

#[test]
fn arrivals_follow_from_the_seed_and_have_the_rate() {
    for trace in TraceKind::ALL {
        let setting = TidalSetting {
            trace,
            seconds: 3_600,
            ..setting()
        };
        let all = arrivals(&setting);
        assert_eq!(all, arrivals(&setting));
        assert!(all.is_sorted());
        // 9,000 are expected: five standard deviations.
        assert!((8_525..9_475).contains(&all.len()), "{}", all.len());
        let other = TidalSetting { seed: 2, ..setting };
        assert_ne!(all, arrivals(&other));
    }
}

#[test]
fn cold_starts_take_the_papers_times() {
    let setting = setting();
    // Llama3-8B-LoRA with 2,048 tokens, figure 17: the load dominates.
    assert_eq!(cold_us(&setting, TidalSystem::Tidal, 6), 633_065);
    // Warm it takes 571 ms, which is what remains with a template.
    let functions = Function::all();
    let warm_us = functions[6].warm_us(&setting.costs);
    assert!(warm_us.abs_diff(571_000) < 100, "{warm_us}");
    let mut template = setting.clone();
    template.templates.kind = functions[6].kind;
    assert_eq!(cold_us(&template, TidalSystem::TidalDk6g, 6), warm_us);
    // Llama2-13B, figure 1: 2.74 times a warm inference.
    let cold = cold_us(&setting, TidalSystem::ServerlessLlm, 10) as f64;
    let factor = cold / functions[10].warm_us(&setting.costs) as f64;
    assert!((2.73..2.75).contains(&factor), "{factor}");
}

#[test]
fn without_loads_and_cold_kernels_all_systems_are_equal() {
    for scheduling in [Scheduling::Soonest, Scheduling::Fifo, Scheduling::Lalbo3] {
        let mut setting = TidalSetting {
            scheduling,
            per_minute: 300,
            ..setting()
        };
        setting.costs.kernels_us = 0;
        setting.costs.llama3.bytes = 0;
        setting.costs.llama2.bytes = 0;
        let runs = simulate(String::new(), setting).runs;
        for run in &runs {
            assert_eq!(run.outcome, runs[0].outcome, "{:?}", run.system);
        }
        assert!(runs[0].outcome.requests > 1_000);
    }
}

#[test]
fn an_instance_is_warm_within_its_keep_alive_and_cold_after_it() {
    let setting = TidalSetting {
        keep_alive: KeepAlive::Seconds(10),
        ..setting()
    };
    let missed = |system, after_s: u64, function| {
        let records = run(
            &setting,
            system,
            &[(0, function), (after_s * 1_000_000, function)],
        );
        records.requests[1].missed
    };
    let [plain, dynamic] = [0, 4];
    for system in TidalSystem::ALL {
        assert!(
            !missed(system, 5, plain) && missed(system, 20, plain),
            "{system:?}"
        );
    }
    assert!(missed(TidalSystem::Tidal, 5, dynamic));
    assert!(missed(TidalSystem::ServerlessLlm, 5, dynamic));
    assert!(!missed(TidalSystem::TidalDk, 5, dynamic));
    assert!(missed(TidalSystem::TidalDk, 20, dynamic));
}

#[test]
fn an_idle_instance_that_stays_has_its_room_until_its_keep_alive_ends() {
    let at = |room, holds_idle| {
        let setting = TidalSetting {
            keep_alive: KeepAlive::Seconds(10),
            gpus: 1,
            room,
            holds_idle,
            ..setting()
        };
        // Two models of 15.7 GB, the second as soon as the first is idle.
        let records = run(&setting, TidalSystem::Tidal, &[(0, 0), (2_000_000, 1)]);
        records.requests[1].latency_us.unwrap()
    };
    let alone = at(GpuRoom::OneInstance, true);
    assert!((8_000_000..10_000_000).contains(&alone), "{alone}");
    assert_eq!(at(GpuRoom::Shared(20_000), true), alone);
    assert!(at(GpuRoom::Shared(44_000), true) < 1_000_000);
    for room in [GpuRoom::OneInstance, GpuRoom::Shared(44_000)] {
        assert!(at(room, false) < 1_000_000, "{room:?}");
    }
}

#[test]
fn a_request_leaves_after_the_timeout() {
    let setting = TidalSetting {
        gpus: 1,
        timeout_s: 1,
        ..setting()
    };
    let arrivals = vec![(0, 11), (1, 3), (2, 7)];
    let records = run(&setting, TidalSystem::ServerlessLlm, &arrivals);
    let served: Vec<bool> = records
        .requests
        .iter()
        .map(|request| request.latency_us.is_some())
        .collect();
    assert_eq!(served, [false, false, true]);
}

#[test]
fn templates_take_no_room_of_other_functions() {
    let setting = setting();
    for function in Function::all() {
        let [before, after] = [TidalSystem::TidalDk, TidalSystem::TidalDk6g]
            .map(|system| cold_us(&setting, system, function.number));
        if function.kind == setting.templates.kind {
            assert!(after <= before, "{function:?}");
        } else {
            assert_eq!(after, before, "{function:?}");
        }
    }
}

fn kinds() -> impl Strategy<Value = TraceKind> {
    prop::sample::select(TraceKind::ALL.to_vec())
}

fn rooms() -> impl Strategy<Value = GpuRoom> {
    prop::sample::select(vec![GpuRoom::OneInstance, GpuRoom::Shared(44_000)])
}

fn schedulings() -> impl Strategy<Value = Scheduling> {
    prop::sample::select(vec![
        Scheduling::Soonest,
        Scheduling::Fifo,
        Scheduling::Lalbo3,
    ])
}

prop_compose! {
    fn settings()(
        per_minute in 1..600_u64,
        trace in kinds(),
        turn in 0..3_u32,
        gpus in 2..9_u32,
        room in rooms(),
        holds_idle: bool,
        scheduling in schedulings(),
        keep_s in prop::option::of(0..20_u64),
        timeout_s in 1..60_u64,
        more_tokens in 0..50_u64,
        shared: bool,
        seed: u64,
    ) -> TidalSetting {
        let mut setting = TidalSetting {
            per_minute,
            trace,
            turn,
            seconds: 60,
            gpus,
            room,
            holds_idle,
            scheduling,
            timeout_s,
            more_tokens,
            keep_alive: keep_s.map_or(KeepAlive::LoadingTime, KeepAlive::Seconds),
            seed,
            ..setting()
        };
        setting.templates.shared = shared;
        setting
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_is_served_or_leaves_after_the_timeout(setting in settings()) {
        let arrivals = arrivals(&setting);
        for system in TidalSystem::ALL {
            let records = run(&setting, system, &arrivals);
            let mut requests_seen: Vec<(u64, u32)> = records
                .requests
                .iter()
                .map(|request| (request.arrived_us, request.function))
                .collect();
            requests_seen.sort_unstable();
            prop_assert_eq!(&requests_seen, &arrivals);
            for request in &records.requests {
                let Some(latency_us) = request.latency_us else { continue };
                let waited_us = latency_us - request.service_us;
                prop_assert!(waited_us <= setting.timeout_s * 1_000_000);
            }
            let outcome = TidalOutcome::of(&setting, system, &records);
            prop_assert!(outcome.percentiles_us.is_sorted());
            let served = records.requests.iter().filter(|request| request.latency_us.is_some()).count();
            prop_assert_eq!(served as u64 + outcome.timeouts, arrivals.len() as u64);
        }
    }

    #[test]
    fn a_larger_template_never_makes_the_own_cold_start_longer(
        function in 0..FUNCTIONS,
        one in 0..30_000_000_000_u64,
        other in 0..30_000_000_000_u64,
        shared: bool,
    ) {
        let kind = Function::all()[function as usize].kind;
        let of = |bytes| {
            let mut setting = setting();
            setting.templates = TemplateSetting { kind, bytes, shared };
            cold_us(&setting, TidalSystem::TidalDk6g, function)
        };
        prop_assert!(of(one.max(other)) <= of(one.min(other)));
        prop_assert!(of(one) <= cold_us(&setting(), TidalSystem::TidalDk, function));
    }
}
