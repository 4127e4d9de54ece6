//! Tests of whole runs: invariants of every policy.

use tetris_scaler_core::Rate;
use tetris_scaler_simulator::catalog::Application;
use tetris_scaler_simulator::trace::{Arrivals, TraceShape, rates};
use tetris_scaler_simulator::{
    Assumptions, LoadSource, Policy, RunOutcome, Scenario, SimulationError, simulate,
};
use tetris_simulation::TraceKind;

fn scenario(applications: &[Application], kind: TraceKind) -> Scenario {
    Scenario {
        applications: applications.to_vec(),
        trace: kind.into(),
        mean: Rate::from_rps(10),
        seconds: 200,
        warm_up_s: 20,
        nodes: 8,
        seed: 3,
        loads: LoadSource::Prometheus,
        assumptions: Assumptions::default(),
    }
}

fn run(scenario: &Scenario, policy: Policy) -> RunOutcome {
    simulate(scenario, policy, &mut || 0).unwrap()
}

#[test]
fn a_run_follows_from_its_seed() {
    for policy in Policy::ALL {
        let scenario = scenario(&Application::ALL, TraceKind::Bursty);
        let outcome = run(&scenario, policy);
        assert_eq!(outcome, run(&scenario, policy), "{policy}");
        let other = Scenario {
            seed: 4,
            ..scenario
        };
        assert_ne!(outcome, run(&other, policy), "{policy}");
    }
}

#[test]
fn every_request_is_counted_once_under_every_policy() {
    let scenario = scenario(&[Application::QaAudio], TraceKind::Periodic);
    let trace = rates(
        TraceKind::Periodic,
        &TraceShape::default(),
        200,
        scenario.mean,
        3,
    );
    let expected = Arrivals::new(trace, 3, 0)
        .filter(|&at_us| at_us >= 20_000_000)
        .count();
    for policy in Policy::ALL {
        let outcome = run(&scenario, policy);
        assert_eq!(outcome.requests, expected as u64, "{policy}");
        assert!(outcome.violations <= outcome.requests, "{policy}");
    }
}

#[test]
fn a_stable_load_is_served_in_time_by_instances_with_spare_threads() {
    for application in Application::ALL {
        // Instances of INFless have one thread: with 5 % of headroom, simultaneous requests queue.
        // Those of Photons have little time left beside their latency.
        let policies = Policy::ALL.into_iter();
        let policies =
            policies.filter(|policy| !matches!(policy, Policy::Infless | Policy::Photons));
        for policy in policies {
            let mut scenario = scenario(&[application], TraceKind::Stable);
            scenario.mean = Rate::from_rps(20);
            let outcome = run(&scenario, policy);
            let permille = outcome.violations_permille();
            let name = application.name();
            assert!(permille < 60, "{name} by {policy}: {permille}");
            assert_eq!(outcome.unplaced, 0);
        }
    }
}

#[test]
fn slow_starts_busy_neighbors_and_late_loads_make_requests_late() {
    let mut base = scenario(&Application::ALL, TraceKind::Bursty);
    base.seconds = 600;
    let late = |edit: fn(&mut Assumptions)| {
        let mut scenario = base.clone();
        edit(&mut scenario.assumptions);
        run(&scenario, Policy::Dts).violations
    };
    let default = late(|_| {});
    let quick = late(|entry| {
        (entry.platform.load_window_s, entry.platform.scrape_s) = (5, 5);
        entry.platform.neighbors_permille = 0;
        entry.platform.start_us = 0;
    });
    let slow = late(|entry| entry.platform.start_us = 30_000_000);
    let busy = late(|entry| entry.platform.neighbors_permille = 1_000);
    assert!(quick < default, "{quick} {default}");
    assert!(default < slow && default < busy, "{default} {slow} {busy}");
}

#[test]
fn bursts_are_carried_where_gateways_count_the_load() {
    let mut bursty = scenario(&Application::ALL, TraceKind::Bursty);
    bursty.seconds = 600;
    let mut late = |loads| {
        bursty.loads = loads;
        let outcome = run(&bursty, Policy::SharingAware);
        outcome.late_per_100_000()
    };
    let (scraped, counted) = (late(LoadSource::Prometheus), late(LoadSource::Gateways));
    assert!(
        counted < 8_000 && counted * 4 < scraped,
        "{counted} {scraped}"
    );
}

#[test]
fn single_requests_wait_in_queues() {
    let outcome = run(
        &scenario(&[Application::Ss], TraceKind::Stable),
        Policy::Dts,
    );
    let queue = outcome.queue;
    // Use has no batches, so no one waits for one to fill.
    assert_eq!(queue.all, outcome.requests);
    assert!(queue.waited > 0 && queue.waited < queue.all, "{queue:?}");
    assert!(queue.mean_us() > 0 && queue.mean_us() < queue.most_us);
}

#[test]
fn sharing_takes_less_memory_than_the_same_without() {
    for application in [Application::Svt, Application::Ss] {
        let mut scenario = scenario(&[application], TraceKind::Stable);
        scenario.mean = Rate::from_rps(20);
        let private = run(&scenario, Policy::DtsRo).memory_bytes.mean;
        let shared = run(&scenario, Policy::Dts).memory_bytes.mean;
        let infless = run(&scenario, Policy::Infless).memory_bytes.mean;
        assert!(
            shared < private && private <= infless,
            "{shared} {private} {infless}"
        );
    }
}

#[test]
fn ten_thousand_nodes_change_nothing_for_those_that_share_nothing() {
    let mut scenario = scenario(&[Application::Svt], TraceKind::Bursty);
    scenario.seconds = 100;
    // Among more nodes there are fewer neighbors.
    scenario.assumptions.platform.neighbors_permille = 0;
    let small = run(&scenario, Policy::DtsRo);
    scenario.nodes = 10_000;
    assert_eq!(run(&scenario, Policy::DtsRo), small);
    for policy in [Policy::Dts, Policy::Exact, Policy::SharingAware] {
        let shared = run(&scenario, policy);
        let (a, b) = (shared.memory_bytes.mean, small.memory_bytes.mean);
        assert!(a < b && shared.unplaced == 0, "{policy}: {a}, {b}");
    }
}

#[test]
fn a_cluster_that_is_too_small_is_said_to_be() {
    let mut scenario = scenario(&[Application::Svt], TraceKind::Stable);
    scenario.nodes = 1;
    scenario.mean = Rate::from_rps(200);
    for policy in Policy::ALL {
        let outcome = run(&scenario, policy);
        assert!(outcome.unplaced > 0 && outcome.violations > 0, "{policy}");
        assert!(outcome.cpu_millis.peak <= 80_000, "{policy}");
        assert!(outcome.memory_bytes.peak <= 256_000_000_000, "{policy}");
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    let mut scenario = scenario(&[], TraceKind::Stable);
    for field in ["applications", "nodes", "seconds"] {
        let Err(SimulationError::Field(error)) = simulate(&scenario, Policy::Dts, &mut || 0) else {
            panic!("{field} was taken");
        };
        assert_eq!(error.field, field);
        if field == "applications" {
            scenario.applications = vec![Application::Ss];
            scenario.nodes = 0;
        } else {
            scenario.nodes = 1;
            scenario.seconds = 0;
        }
    }
}
