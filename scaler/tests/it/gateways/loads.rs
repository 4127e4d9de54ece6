//! Tests of loads from the pages of several gateways.

use tetris_scaler::gateways::{
    FunctionPage, Gateway, GatewayError, GatewayLoads, GatewayProblem, GatewayReading, LatencyPage,
    PORT, Page, SILENT_AFTER,
};
use tetris_scaler::load::LoadError;
use tetris_scaler::resources::Percentile;
use tetris_scaler::state::Key;
use tetris_scaler_core::{Rate, Slo};

const SILENT_MS: u64 = SILENT_AFTER.as_millis() as u64;

fn key() -> Key {
    Key::new("search", "embed")
}

fn gateway(pod: &str) -> Gateway {
    Gateway {
        pod: pod.to_owned(),
        address: ([127, 0, 0, 1], PORT).into(),
        is_ready: true,
    }
}

fn counted(requests: u64) -> FunctionPage {
    FunctionPage {
        requests,
        ..FunctionPage::default()
    }
}

/// Gateways with constant loads, and the time.
struct World {
    loads: GatewayLoads,
    gateways: Vec<Gateway>,
    now_ms: u64,
}

impl World {
    fn new(pods: &[&str]) -> Self {
        let world = Self {
            loads: GatewayLoads::default(),
            gateways: pods.iter().map(|pod| gateway(pod)).collect(),
            now_ms: 1_000_000,
        };
        world.loads.set(&world.gateways, world.now_ms);
        world
    }

    /// Takes in the page of a gateway that started at `started_ms`.
    fn page(
        &self,
        pod: &str,
        started_ms: u64,
        function: FunctionPage,
    ) -> Result<Vec<Key>, GatewayError> {
        let page = Page {
            started_ms,
            at_ms: self.now_ms,
            functions: [(key(), function)].into(),
        };
        self.loads.answered(&gateway(pod), Ok(page), self.now_ms)
    }

    /// Lets gateways count `rps` requests per second, each with its pod and its counter, for a time.
    fn count(&mut self, counters: &mut [(&str, u64)], rps: u64, seconds: u64) {
        for _ in 0..seconds * 4 {
            self.now_ms += 250;
            for (pod, requests) in counters.iter_mut() {
                *requests += rps / 4;
                self.page(pod, 1, counted(*requests)).unwrap();
            }
        }
    }

    fn reading(&self) -> GatewayReading {
        let slo = Slo::try_from_us(200_000).unwrap();
        self.loads.of(&key(), slo, Percentile::P95, self.now_ms)
    }

    fn load(&self) -> Result<Rate, LoadError> {
        self.reading().load
    }
}

#[test]
fn the_rates_of_all_gateways_are_added_up() {
    let mut world = World::new(&["a", "b"]);
    world.count(&mut [("a", 1_000_000), ("b", 7)], 100, 20);
    assert_eq!(world.load(), Ok(Rate::from_rps(200)));
    // The arrivals at one that is gone count until they are too old: its clients go to the other.
    world.gateways.pop();
    world.loads.set(&world.gateways, world.now_ms);
    assert_eq!(world.load(), Ok(Rate::from_rps(200)));
    world.count(&mut [("a", 1_002_000)], 200, 5);
    assert_eq!(world.load(), Ok(Rate::from_rps(200)));
}

#[test]
fn a_load_is_unknown_before_arrivals_are_counted_for_a_second() {
    let mut world = World::new(&["a", "b"]);
    assert_eq!(world.load(), Err(LoadError::NotAsked));
    world.page("a", 1, counted(1_000_000)).unwrap();
    world.now_ms += 750;
    world.page("a", 1, counted(1_000_075)).unwrap();
    assert_eq!(world.load(), Err(LoadError::NotAsked));
    world.now_ms += 250;
    world.page("a", 1, counted(1_000_100)).unwrap();
    assert_eq!(world.load(), Err(LoadError::NotAsked), "b has not answered");
    world.page("b", 1, counted(1_000_000)).unwrap();
    assert_eq!(
        world.load(),
        Err(LoadError::NotAsked),
        "both are counted from here on"
    );
    world.now_ms += 1_000;
    world.page("a", 1, counted(1_000_200)).unwrap();
    assert_eq!(world.load(), Err(LoadError::NotAsked));
    world.page("b", 1, counted(1_000_100)).unwrap();
    assert_eq!(world.load(), Ok(Rate::from_rps(200)));
    // Nothing is known of the time since the last answers.
    world.now_ms += 1_000;
    assert_eq!(world.load(), Ok(Rate::from_rps(200)));
}

#[test]
fn a_counter_that_begins_again_gives_neither_a_negative_nor_a_huge_rate() {
    let mut world = World::new(&["a"]);
    let mut counters = [("a", 1_000_000)];
    world.count(&mut counters, 100, 20);
    let requests = counters[0].1;
    // The gateway restarts, and has 50 requests within half a second.
    world.now_ms += 500;
    world.page("a", 2, counted(50)).unwrap();
    assert_eq!(world.load(), Ok(Rate::from_rps(100)));
    // A counter falls without a restart, as of a function that was created anew.
    world.now_ms += 250;
    world.page("a", 2, counted(25)).unwrap();
    assert_eq!(world.load(), Ok(Rate::from_rps(100)));
    // Its old counter would be a rise of a million.
    world.now_ms += 250;
    world.page("a", 3, counted(25)).unwrap();
    world.now_ms += 250;
    let error = world.page("a", 3, counted(requests * 10)).unwrap_err();
    assert_eq!(error.class(), "gateway_malformed");
    assert!(error.to_string().contains("search/embed: found"), "{error}");
    assert!(world.load().unwrap() <= Rate::from_rps(100));
}

#[test]
fn requests_during_a_gateways_silence_are_spread_over_it() {
    let mut world = World::new(&["a"]);
    let mut counters = [("a", 0)];
    world.count(&mut counters, 100, 20);
    world.now_ms += 30_000;
    counters[0].1 += 3_000;
    world.page("a", 1, counted(counters[0].1)).unwrap();
    assert_eq!(world.load(), Ok(Rate::from_rps(100)));
}

#[test]
fn one_ready_gateway_that_is_silent_makes_loads_unknown() {
    let mut world = World::new(&["a", "b"]);
    let mut counters = [("a", 0), ("b", 0)];
    world.count(&mut counters, 100, 20);
    let problem = GatewayProblem::Unreachable("connection refused".to_owned());
    let error = GatewayError {
        gateway: "b".to_owned(),
        address: gateway("b").address,
        problem,
    };
    let refusal = world
        .loads
        .answered(&gateway("b"), Err(error.clone()), world.now_ms);
    assert_eq!(refusal, Err(error.clone()));
    let mut a = [counters[0]];
    world.count(&mut a, 100, SILENT_MS / 1_000);
    assert!(world.load().is_ok(), "its last answer is not too old");
    assert_eq!(world.loads.counts(world.now_ms), (2, 2));
    world.count(&mut a, 100, 1);
    let problem = error.to_string();
    assert_eq!(world.load(), Err(LoadError::GatewaySilent { problem }));
    let text = world.load().unwrap_err().to_string();
    assert!(
        text.contains("gateway b at 127.0.0.1:9471: connection refused"),
        "{text}"
    );
    assert_eq!(world.loads.counts(world.now_ms), (2, 1));
    // A request that waits at the other is seen all the same.
    let waits = FunctionPage {
        waiting: 1,
        ..counted(a[0].1)
    };
    assert!(!world.reading().is_demanded);
    world.now_ms += 1;
    assert_eq!(world.page("a", 1, waits), Ok(vec![key()]));
    assert!(world.reading().is_demanded);
    // Nothing is expected of one that is not ready.
    world.gateways[1].is_ready = false;
    world.loads.set(&world.gateways, world.now_ms);
    assert!(world.load().is_ok());
    world.gateways[0].is_ready = false;
    world.loads.set(&world.gateways, world.now_ms);
    assert_eq!(world.load(), Err(LoadError::NoGateway));
}

#[test]
fn a_new_gateway_has_a_moment_to_answer() {
    let mut world = World::new(&["a"]);
    let mut a = [("a", 0)];
    world.count(&mut a, 100, 20);
    world.gateways.push(gateway("b"));
    world.loads.set(&world.gateways, world.now_ms);
    assert_eq!(world.load(), Ok(Rate::from_rps(100)));
    world.count(&mut a, 100, SILENT_MS / 1_000 + 1);
    assert!(matches!(world.load(), Err(LoadError::GatewaySilent { .. })));
}

#[test]
fn a_page_that_is_not_newer_is_an_error() {
    let mut world = World::new(&["a"]);
    world.count(&mut [("a", 0)], 100, 5);
    let error = world.page("a", 1, counted(0)).unwrap_err();
    assert!(error.to_string().contains("newer"), "{error}");
}

#[test]
fn a_gateway_that_does_not_know_a_function_adds_nothing_and_without_any_it_is_unknown() {
    let mut world = World::new(&["a", "b"]);
    let mut a = [("a", 0)];
    for _ in 0..20 {
        world.count(&mut a, 100, 1);
        let page = Page {
            started_ms: 1,
            at_ms: world.now_ms,
            ..Page::default()
        };
        world
            .loads
            .answered(&gateway("b"), Ok(page), world.now_ms)
            .unwrap();
    }
    assert_eq!(world.load(), Ok(Rate::from_rps(100)));
    let other = Key::new("search", "other");
    let slo = Slo::try_from_us(1).unwrap();
    let reading = world.loads.of(&other, slo, Percentile::P50, world.now_ms);
    assert_eq!(reading.load, Err(LoadError::NotListed));
    // The first request of a function counts, where the gateway did not list the function before.
    world.now_ms += 250;
    world.page("b", 1, counted(1_000)).unwrap();
    world.page("a", 1, counted(a[0].1 + 25)).unwrap();
    // They are a rise beyond chance: 1,200 in the last 2 s.
    assert_eq!(world.load(), Ok(Rate::from_rps(600)));
}

#[test]
fn requests_that_wait_for_longer_than_the_objective_count() {
    let mut world = World::new(&["a", "b"]);
    let mut counters = [("a", 0), ("b", 0)];
    world.count(&mut counters, 100, 20);
    let mut load = |oldest_wait_ms| {
        world.now_ms += 250;
        for (pod, requests) in &mut counters {
            *requests += 25;
            let page = FunctionPage {
                waiting: 200,
                oldest_wait_ms,
                ..counted(*requests)
            };
            world.page(pod, 1, page).unwrap();
        }
        world.load().unwrap()
    };
    assert_eq!(load(200), Rate::from_rps(200));
    assert_eq!(load(201), Rate::from_rps(240), "400 within 10 s");
}

#[test]
fn outstanding_requests_are_added_up_and_the_largest_latency_counts() {
    let mut world = World::new(&["a", "b"]);
    world.count(&mut [("a", 0), ("b", 0)], 100, 5);
    world.now_ms += 250;
    assert_eq!(world.reading().latency, Err(LoadError::NoRequests));
    for (pod, p95_ms, x) in [("a", 20.5, 2), ("b", 30.0, 1)] {
        let page = FunctionPage {
            in_flight: 3,
            latency: Some(LatencyPage {
                p95_ms,
                ..LatencyPage::default()
            }),
            outstanding: [("x".to_owned(), x), ("y".to_owned(), 1)].into(),
            ..counted(10_000)
        };
        world.page(pod, 1, page).unwrap();
    }
    let reading = world.reading();
    assert_eq!(reading.latency, Ok(30_000));
    assert_eq!(reading.pods["x"], Rate::from_rps(3));
    assert_eq!(reading.pods["y"], Rate::from_rps(2));
    assert!(reading.is_demanded, "requests are served");
}
