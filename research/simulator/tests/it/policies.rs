//! Tests of the policies' choices against those that the paper reports (Tetris 5.3).

use tetris_scaler_core::Rate;
use tetris_scaler_simulator::catalog::{Application, Function, ModelAssumptions};
use tetris_scaler_simulator::cluster::{Cluster, Loads, WeightRules};
use tetris_scaler_simulator::policy::{Started, scale_out};
use tetris_scaler_simulator::{Platform, Policy};

fn functions(application: Application) -> Vec<Function> {
    let assumed = ModelAssumptions::default();
    let all = application.stages().iter().copied().flatten();
    all.map(|&(model, variant)| Function::try_new(model, variant, &assumed).unwrap())
        .collect()
}

fn cluster(policy: Policy) -> Cluster {
    let rules = WeightRules {
        sharing: policy.sharing(),
        copied_permille: 0,
        keep_alive_us: 60_000_000,
    };
    Cluster::try_new(8, rules).unwrap()
}

fn start(policy: Policy, function: &Function, rps: u64, cluster: &mut Cluster) -> Started {
    let platform = Platform::default();
    scale_out(policy, function, Rate::from_rps(rps), cluster, &platform).unwrap()
}

/// Returns batch size and threads of each instance.
fn shapes(policy: Policy, function: &Function, rps: u64) -> Vec<(u32, u32)> {
    let mut cluster = cluster(policy);
    let started = start(policy, function, rps, &mut cluster);
    let all = function.profile.configurations();
    let configurations = started.starts.iter().map(|start| all[start.configuration]);
    configurations
        .map(|start| (start.batch(), start.concurrency()))
        .collect()
}

#[test]
fn photons_runs_two_requests_of_resnet_and_four_of_qa_audio_at_once() {
    let resnet = &functions(Application::Svt)[1];
    assert!(
        shapes(Policy::Photons, resnet, 20)
            .iter()
            .all(|&shape| shape == (1, 2))
    );
    for function in functions(Application::QaAudio) {
        let shapes = shapes(Policy::Photons, &function, 20);
        assert!(!shapes.is_empty() && shapes.iter().all(|&shape| shape == (1, 4)));
    }
}

#[test]
fn dts_gets_three_threads_of_resnet_where_photons_gets_two() {
    let resnet = &functions(Application::Svt)[1];
    assert_eq!(shapes(Policy::DtsRo, resnet, 20), [(1, 3), (1, 3)]);
}

#[test]
fn infless_batches_what_can_be_batched_and_has_one_thread() {
    let text = &functions(Application::QaText)[0];
    let (few, many) = (
        shapes(Policy::Infless, text, 1),
        shapes(Policy::Infless, text, 1_000),
    );
    assert_eq!(
        few,
        [(1, 1)],
        "one request a second fills no batch within 30 ms"
    );
    assert!(
        many.iter().filter(|&&shape| shape == (4, 1)).count() * 2 > many.len(),
        "{many:?}"
    );
    let single = &functions(Application::Ss)[0];
    assert!(
        shapes(Policy::Infless, single, 100)
            .iter()
            .all(|&shape| shape == (1, 1))
    );
}

#[test]
fn infless_fills_nodes_and_others_that_share_nothing_spread() {
    let function = &functions(Application::Ss)[0];
    let nodes = |policy: Policy| {
        let mut cluster = cluster(policy);
        let started = start(policy, function, 200, &mut cluster);
        let nodes = started.starts.iter().map(|start| start.node);
        nodes.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(nodes(Policy::Infless).len(), 1);
    assert!(nodes(Policy::Photons).len() > 1);
}

#[test]
fn the_placed_page_cache_goes_where_the_file_is_mapped() {
    let function = &functions(Application::Ss)[0];
    let started_on = |policy: Policy| {
        let mut cluster = cluster(policy);
        let configuration = &function.profile.configurations()[0];
        cluster.start(5, function, configuration).unwrap();
        let started = start(policy, function, 100, &mut cluster);
        let nodes = started.starts.iter().map(|start| start.node);
        nodes.collect::<Vec<_>>()
    };
    let placed = started_on(Policy::PageCachePlaced);
    assert!(!placed.is_empty() && placed.iter().all(|&node| node == 5));
    assert!(started_on(Policy::PageCache).iter().all(|&node| node != 5));
}

#[test]
fn those_that_share_go_where_the_tensors_are() {
    let function = &functions(Application::Ss)[0];
    for policy in [Policy::Dts, Policy::Exact] {
        let mut cluster = cluster(policy);
        let configuration = &function.profile.configurations()[0];
        cluster.start(5, function, configuration).unwrap();
        let started = start(policy, function, 100, &mut cluster);
        let warm = started
            .starts
            .iter()
            .all(|start| start.node == 5 && start.loads == Loads::default());
        assert!(!started.starts.is_empty() && warm, "{policy}: {started:?}");
    }
}
