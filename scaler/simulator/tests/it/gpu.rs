//! Tests of the engine of GPUs, and of the papers that it repeats, in small.

use std::process::{Command, Output};

use serde_json::Value;
use tetris_scaler_dispatch::gpu::GpuPolicy;
use tetris_scaler_simulator::gpu::gpu_faas::{FaasOutcome, FaasSetting, Popularity, simulate};

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
    [GpuPolicy::LoadBalancing, GpuPolicy::LALB, GpuPolicy::LALBO3]
        .map(|policy| simulate(&setting(working_set, 1), policy))
}

#[test]
fn locality_saves_latency_and_misses_in_the_order_of_the_paper() {
    for working_set in [15, 25, 35] {
        let [lb, lalb, o3] = outcomes(working_set);
        for one in [lb, lalb, o3] {
            assert_eq!(one.requests, 3 * 325);
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
    let run = |seed| simulate(&setting(25, seed), GpuPolicy::LALBO3);
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
    assert!(count("runs") >= 9 && count("sweep") >= 3 * 4 * 9);
    assert_eq!(report["claims"][0]["paper"], -9774);
}

#[test]
fn a_reproduction_takes_no_argument_of_the_comparison() {
    let output = command(&["--nodes", "9", "reproduce-gpu-faas"]);
    assert!(!output.status.success());
}
