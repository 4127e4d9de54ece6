//! Tests of the simulation.

use proptest::prelude::*;
use tetris_engine_simulator::{
    Act, Move, Policy, Request, SECOND, Scenario, SwapPerRequest, USUAL, Workload, candidates,
    moves, run, trace,
};

fn workload(rate: f64) -> Workload {
    Workload {
        models: 8,
        exponent: 1.0,
        rate,
        length_us: 1_200 * SECOND,
    }
}

fn scenario(moves: Move) -> Scenario {
    Scenario {
        workload: workload(0.5),
        moves,
        wait_us: 180 * SECOND,
    }
}

#[test]
fn traces_follow_from_their_seed_and_zipfs_law() {
    let requests = trace(&workload(2.0), 1);
    assert_eq!(requests, trace(&workload(2.0), 1));
    assert_ne!(requests, trace(&workload(2.0), 2));
    let of = |model| {
        requests
            .iter()
            .filter(|request| request.model == model)
            .count() as f64
    };
    let ratio = of(0) / of(3);
    assert!((3.0..5.5).contains(&ratio), "{ratio}, expected about 4");
}

#[test]
fn two_requests_are_served_when_the_arithmetic_says() {
    // The first wakes its engine in 1 s; the second waits for its end, a sleep of 0.5 s and a wake of 1 s.
    let requests = [(0, 0), (1, SECOND)].map(|(model, arrived_us)| Request {
        model,
        arrived_us,
        first_us: 200_000,
        whole_us: 2 * SECOND,
    });
    let mut swaps = SwapPerRequest::default();
    let figures = run(&mut swaps, &requests, &scenario(moves()[0]));
    assert_eq!((figures.served, figures.switches), (2, 2));
    assert_eq!(figures.first_p99_ms, 3_000 + 500 + 1_000 + 200 - 1_000);
}

#[test]
fn residence_takes_fewer_wakes_than_swaps_per_request() {
    let requests = trace(&workload(0.5), 1);
    for moves in moves() {
        let [swaps, _, tetris, ..] = candidates(USUAL)
            .map(|candidate| run(candidate.policy(8).as_mut(), &requests, &scenario(moves)));
        assert!(tetris.switches < swaps.switches, "{tetris:?} {swaps:?}");
        assert!(tetris.served >= swaps.served, "{tetris:?} {swaps:?}");
    }
}

/// Checks that a policy starts requests only at an awake engine, within the number of those.
struct Watched(Box<dyn Policy>, Vec<bool>, Vec<usize>, u64);

impl Policy for Watched {
    fn offer(&mut self, now_us: u64, model: usize, request: usize) -> bool {
        assert_eq!(self.2.len(), request);
        self.2.push(model);
        self.0.offer(now_us, model, request)
    }

    fn ended(&mut self, now_us: u64, request: usize) {
        self.0.ended(now_us, request);
    }

    fn slept(&mut self, now_us: u64, model: usize) {
        self.1[model] = false;
        self.0.slept(now_us, model);
    }

    fn woke(&mut self, now_us: u64, model: usize) {
        self.1[model] = true;
        let awake = self.1.iter().filter(|awake| **awake).count() as u64;
        assert!(awake <= self.3, "{awake} engines are awake");
        self.0.woke(now_us, model);
    }

    fn act(&mut self, now_us: u64) -> Vec<Act> {
        let acts = self.0.act(now_us);
        for act in &acts {
            if let Act::Start(request) = act {
                assert!(
                    self.1[self.2[*request]],
                    "request {request} at a sleeping engine"
                );
            }
        }
        acts
    }

    fn next_us(&self, now_us: u64) -> Option<u64> {
        self.0.next_us(now_us)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_request_ends_at_an_engine_that_is_awake(seed: u64, rate in 0.05..2.0_f64, kind in 0..3_usize) {
        let requests = trace(&workload(rate), seed);
        for candidate in candidates(USUAL) {
            let mut watched = Watched(candidate.policy(8), vec![false; 8], Vec::new(), candidate.awake);
            let figures = run(&mut watched, &requests, &scenario(moves()[kind]));
            prop_assert_eq!(figures.served + figures.failed, requests.len());
        }
    }
}
