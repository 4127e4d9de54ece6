//! Tests of the engine of GPUs, and of the papers that it repeats, in small.

use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;
use tetris_gpu_policies::{LALB, LALBO3};
use tetris_scaler_dispatch::gpu::{GpuPolicy, LoadBalancing, SharingRules};
use tetris_scaler_simulator::gpu::gpu_faas::{FaasOutcome, FaasSetting, Popularity, simulate};
use tetris_scaler_simulator::gpu::torpor::{self, Arrivals, NodeSetting, TorporGrid, Variant};

fn setting(working_set: u32, seed: u64) -> FaasSetting {
    FaasSetting {
        working_set,
        popularity: Popularity::Uniform,
        memory_mb: 8_000,
        gpus: 12,
        per_minute: 325,
        minutes: 3,
        seed,
    }
}

fn outcomes(working_set: u32) -> [FaasOutcome; 3] {
    let policies: [Arc<dyn GpuPolicy>; 3] =
        [Arc::new(LoadBalancing), Arc::new(LALB), Arc::new(LALBO3)];
    policies.map(|policy| simulate(&setting(working_set, 1), policy))
}

#[test]
fn locality_saves_latency_and_misses_in_the_order_of_the_paper() {
    for working_set in [15, 25, 35] {
        let [lb, lalb, o3] = outcomes(working_set);
        for entry in [lb, lalb, o3] {
            assert_eq!(entry.requests, 3 * 325);
        }
        assert!(
            lalb.mean_latency_us * 2 < lb.mean_latency_us,
            "{lb:?} {lalb:?}"
        );
        assert!(
            lalb.misses_per_10000 * 2 < lb.misses_per_10000,
            "{lb:?} {lalb:?}"
        );
        assert!(
            o3.misses_per_10000 <= lalb.misses_per_10000,
            "{lalb:?} {o3:?}"
        );
    }
    let [_, lalb, o3] = outcomes(35);
    assert!(o3.mean_latency_us < lalb.mean_latency_us, "{lalb:?} {o3:?}");
}

#[test]
fn figure_4c_has_more_use_of_gpus_the_fewer_requests_miss() {
    let all = [15, 25, 35].map(outcomes);
    for [lb, lalb, o3] in all {
        // A GPU loads for more than half of a miss: LB has the least use by far.
        assert!(
            lb.use_per_10000 * 3 < lalb.use_per_10000 * 2,
            "{lb:?} {lalb:?}"
        );
        // Without many misses, the time of the last request decides.
        assert!(
            lalb.use_per_10000 <= o3.use_per_10000 + 100,
            "{lalb:?} {o3:?}"
        );
    }
    let of_lb = all.map(|[lb, ..]| lb.use_per_10000);
    let of_o3 = all.map(|[.., o3]| o3.use_per_10000);
    for uses in [of_lb, of_o3] {
        let [least, most] = [uses.iter().min(), uses.iter().max()].map(Option::unwrap);
        assert!(most - least < 500, "{uses:?}");
    }
}

#[test]
fn tiers_of_popularity_change_the_working_sets_with_a_lower_tier() {
    let of = |popularity, working_set| {
        let setting = FaasSetting {
            popularity,
            ..setting(working_set, 1)
        };
        simulate(&setting, Arc::new(LALBO3))
    };
    // Fifteen functions are the upper tier only.
    let equal =
        |working_set| of(Popularity::TwoTier, working_set) == of(Popularity::Uniform, working_set);
    assert!(equal(15) && !equal(25) && !equal(35));
    assert_ne!(
        of(Popularity::TwoTierZipf, 15),
        of(Popularity::TwoTierRoot, 15)
    );
}

#[test]
fn the_result_follows_from_the_seed() {
    let run = |seed| simulate(&setting(25, seed), Arc::new(LALBO3));
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

fn command(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_reproduction_of_gpu_faas_has_the_papers_figures_beside_its_own() {
    let small = ["reproduce-gpu-faas", "--minutes", "1", "--seeds", "1"];
    let text = String::from_utf8(command(&small).stdout).unwrap();
    for part in [
        "-97.74", "-93.33", "-79.43", "-96.93", "LALBO3", "limit 45", "zipf",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let json = command(&[&small[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let count = |name: &str| report[name].as_array().unwrap().len();
    assert_eq!((count("claims"), count("limits")), (17, 10));
    assert_eq!((count("runs"), count("sweep")), (12, 6 * 5 * 12));
    assert_eq!(count("fits"), 6 * 5);
    assert_eq!(report["claims"][0]["paper"], -9774);
}

#[test]
fn a_reproduction_takes_no_argument_of_the_comparison() {
    let output = command(&["--nodes", "9", "reproduce-gpu-faas"]);
    assert!(!output.status.success());
}

#[test]
fn ours_has_less_latency_than_the_policies_of_gpu_faas() {
    for working_set in [15, 25, 35] {
        let policy = Arc::new(SharingRules::default());
        let ours = simulate(&setting(working_set, 1), policy);
        let [_, lalb, o3] = outcomes(working_set);
        let best = lalb.mean_latency_us.min(o3.mean_latency_us);
        assert!(ours.mean_latency_us < best, "{ours:?} {lalb:?} {o3:?}");
    }
}

fn node(functions: u32, shared_permille: u64) -> NodeSetting {
    let grid = TorporGrid {
        seconds: Some(30),
        memory_mb: 8_000,
        ..TorporGrid::default()
    };
    NodeSetting {
        shared_permille,
        ..grid.node(functions)
    }
}

#[test]
fn late_binding_runs_functions_for_which_containers_have_no_room() {
    let setting = node(160, 0);
    let [native, torpor, ours] = [Variant::Native, Variant::Torpor, Variant::Sharing]
        .map(|variant| torpor::simulate(&setting, variant));
    assert_eq!(
        (torpor.executed, ours.executed),
        (torpor.functions, ours.functions)
    );
    assert!(native.executed < 80, "{native:?}");
    assert!(torpor.compliant > native.compliant, "{torpor:?}");
}

fn torpor_seed(seed: u64) -> TorporGrid {
    TorporGrid {
        seed,
        ..TorporGrid::default()
    }
}

#[test]
fn figure_8_has_ten_times_the_functions_within_50_ms_by_the_authors_arrivals() {
    for seed in 1..=3 {
        let setting = torpor_seed(seed).one_gpu(210, 10);
        let [native, torpor] =
            [Variant::Native, Variant::Torpor].map(|variant| torpor::simulate(&setting, variant));
        assert_eq!((native.executed, torpor.executed), (19, 210));
        assert_eq!(torpor.compliant, 210, "{torpor:?}");
        assert!(torpor.p98_us[0] < 50_000, "{torpor:?}");
        assert!(torpor.misses * 3 > torpor.requests, "{torpor:?}");
    }
    // Exponential times between requests make them wait.
    let random = TorporGrid {
        arrivals: Arrivals::PoissonProcess,
        ..TorporGrid::default()
    };
    let torpor = torpor::simulate(&random.one_gpu(210, 10), Variant::Torpor);
    assert!(torpor.p98_us[0] > 100_000, "{torpor:?}");
}

#[test]
fn figure_9_balances_frequent_functions_and_native_containers_queue() {
    for seed in 1..=3 {
        let setting = torpor_seed(seed).frequent();
        let [native, torpor] =
            [Variant::Native, Variant::Torpor].map(|variant| torpor::simulate(&setting, variant));
        assert_eq!(torpor.compliant, 40, "{torpor:?}");
        assert!(torpor.p98_us[0] < 45_000, "{torpor:?}");
        assert!(native.p98_us[0] > 10 * torpor.p98_us[0], "{native:?}");
    }
}

#[test]
fn figure_10_lets_lifespans_run_more_functions_and_breaks_most_of_their_slos() {
    for seed in 1..=3 {
        let setting = torpor_seed(seed).beside_containers();
        let [native, infless, torpor] = [Variant::Native, Variant::InflessKa, Variant::Torpor]
            .map(|variant| torpor::simulate(&setting, variant));
        assert_eq!((native.executed, native.misses), (72, 0));
        assert_eq!((torpor.executed, torpor.compliant), (160, 160));
        assert!(infless.executed > 110, "{infless:?}");
        assert!((1..=12).contains(&infless.compliant), "{infless:?}");
        // Shorter lifespans make for more cold starts.
        let shorter = NodeSetting {
            lifespan_percent: 90,
            ..setting
        };
        let shorter = torpor::simulate(&shorter, Variant::InflessKa);
        assert!(infless.executed <= shorter.executed, "{shorter:?}");
        assert!(infless.misses < shorter.misses, "{infless:?} {shorter:?}");
    }
}

#[test]
fn figure_11_has_480_of_480_functions_compliant() {
    for seed in 1..=3 {
        let setting = torpor_seed(seed).parts(480);
        let [torpor, lru] =
            [Variant::Torpor, Variant::Lru].map(|variant| torpor::simulate(&setting, variant));
        assert_eq!((torpor.functions, torpor.compliant), (480, 480));
        assert!(lru.compliant < 480, "{lru:?}");
    }
}

#[test]
fn the_authors_threshold_keeps_more_functions_compliant_under_overload_than_a_queue() {
    // The first ten minutes, with more requests than later ones.
    let grid = TorporGrid {
        seconds: Some(600),
        ..TorporGrid::default()
    };
    let [fifo, torpor] =
        [Variant::Fifo, Variant::Torpor].map(|variant| torpor::simulate(&grid.parts(560), variant));
    assert!(torpor.compliant > fifo.compliant, "{torpor:?} {fifo:?}");
}

#[test]
fn figure_12_meets_both_slos_where_the_least_recently_used_models_go_first_it_meets_neither() {
    for seed in 1..=3 {
        let setting = torpor_seed(seed).light_and_heavy();
        let [lru, torpor] =
            [Variant::Lru, Variant::Torpor].map(|variant| torpor::simulate(&setting, variant));
        let [light, heavy] = torpor.p98_us;
        assert!(light < 80_000 && heavy < 200_000, "{torpor:?}");
        assert!(lru.p98_us[1] > 200_000, "{lru:?}");
    }
}

#[test]
fn wrong_arguments_of_reproductions_are_named() {
    for (command_name, name, value, expected) in [
        ("reproduce-torpor", "--arrivals", "often", "poisson-process"),
        ("reproduce-torpor", "--seconds", "9", "9"),
        (
            "reproduce-gpu-faas",
            "--popularity",
            "often",
            "two-tier-zipf",
        ),
        ("reproduce-gpu-faas", "--seeds", "0", "0"),
    ] {
        let output = command(&[command_name, name, value]);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            message.contains(name) && message.contains(expected),
            "{message}"
        );
    }
}

#[test]
fn a_family_moves_only_what_its_members_do_not_share() {
    let bytes = |shared| torpor::simulate(&node(160, shared), Variant::Sharing).host_bytes;
    assert!(bytes(900) * 3 < bytes(0));
    let whole = |shared| torpor::simulate(&node(160, shared), Variant::Torpor).host_bytes;
    assert_eq!(whole(900), whole(0));
}

#[test]
fn the_reproduction_of_torpor_has_every_figure() {
    let small = ["reproduce-torpor", "--seconds", "10"];
    let text = String::from_utf8(command(&small).stdout).unwrap();
    for part in [
        "Torpor-Random",
        "SimpleSwap",
        "NonSwap",
        "families",
        "own switches",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let json = command(&[&small[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let runs = report["runs"].as_array().unwrap();
    for figure in [
        "8", "9", "10", "11", "12", "14", "families", "memory", "links",
    ] {
        assert!(
            runs.iter().any(|run| run["experiment"] == figure),
            "{figure}"
        );
    }
}

#[test]
fn the_reproduction_of_tidal_has_figure_19_and_follows_from_the_seed() {
    let small = ["reproduce-tidal", "--seconds", "60", "--per-minute", "100"];
    let text = command(&small).stdout;
    assert_eq!(text, command(&small).stdout);
    assert_ne!(
        text,
        command(&[&small[..], &["--seed", "2"]].concat()).stdout
    );
    let text = String::from_utf8(text).unwrap();
    for part in ["-76.00", "Tidal-DK-6G", "Figure 19b", "LALBO3", "router"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let json = command(&[&small[..], &["--format", "json"]].concat());
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let claims = report["claims"].as_array().unwrap();
    let of = |figure: &str| {
        claims
            .iter()
            .filter(|claim| claim["figure"] == figure)
            .count()
    };
    // Figure 19b has six stages of three systems.
    assert_eq!((of("13"), of("19a"), of("19b")), (1, 8, 18));
    for figure in ["short", "long"] {
        let runs = report[figure]["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 4);
        let cdf = &runs[0]["outcome"]["percentiles_us"];
        assert_eq!(cdf.as_array().unwrap().len(), 100);
    }
    assert!(report["sweep"].as_array().unwrap().len() > 30);
}
