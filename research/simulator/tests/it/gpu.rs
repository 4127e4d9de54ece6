//! Tests of the engine of GPUs, and of the papers that it repeats, in small.

use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;
use tetris_gpu_policies::{LALB, LALBO3};
use tetris_scaler_dispatch::gpu::{GpuPolicy, LoadBalancing, SharingRules};
use tetris_scaler_simulator::gpu::gpu_faas::{FaasOutcome, FaasSetting, Popularity, simulate};
use tetris_scaler_simulator::gpu::torpor::{self, NodeSetting, TorporGrid, Variant};

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
    assert_eq!((count("claims"), count("limits")), (16, 10));
    assert_eq!((count("runs"), count("sweep")), (12, 3 * 4 * 12));
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
        seconds: 30,
        memory_mb: 8_000,
        ..TorporGrid::default()
    };
    NodeSetting {
        functions,
        shared_permille,
        ..grid.node()
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

#[test]
fn lifespans_let_more_functions_run_and_cost_cold_starts() {
    let of = |lifespan_percent| NodeSetting {
        lifespan_percent,
        ..node(160, 0)
    };
    let native = torpor::simulate(&of(99), Variant::Native);
    let [long, short] = [99, 50].map(|percent| torpor::simulate(&of(percent), Variant::InflessKa));
    assert_eq!(native.misses, 0);
    assert!(native.executed <= long.executed, "{native:?} {long:?}");
    assert!(long.executed < short.executed, "{long:?} {short:?}");
    assert!(long.misses < short.misses, "{long:?} {short:?}");
    // A cold start takes 8 s: its function misses the SLO.
    assert!(short.compliant < native.compliant, "{native:?} {short:?}");
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
