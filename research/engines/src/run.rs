//! A run of one policy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use crate::policy::{Act, Policy};
use crate::scenario::Scenario;
use crate::trace::Request;

/// Figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Requests that arrived.
    pub arrived: usize,
    /// Requests that got their last token.
    pub served: usize,
    /// Requests without an answer: refused, or after the longest wait.
    pub failed: usize,
    /// Median time from arrival to the first token, of served requests, in milliseconds.
    pub first_p50_ms: u64,
    /// 99th percentile of the same.
    pub first_p99_ms: u64,
    /// Number of wakes.
    pub switches: usize,
    /// Served requests per minute, to the end of the last one.
    pub per_minute: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Slept(usize),
    Woke(usize),
    Ended(usize),
    Arrives(usize),
    GivesUp(usize),
    Look,
}

/// Runs a policy on a trace, to the end of its last request.
pub fn run(policy: &mut dyn Policy, requests: &[Request], scenario: &Scenario) -> Figures {
    let mut events = BinaryHeap::new();
    for (number, request) in requests.iter().enumerate() {
        events.push(Reverse((request.arrived_us, Event::Arrives(number))));
    }
    let mut started: Vec<Option<u64>> = vec![None; requests.len()];
    let mut over = vec![false; requests.len()];
    let (mut served, mut switches, mut last_us) = (0, 0, 0);
    let mut firsts = Vec::new();
    while let Some(Reverse((now_us, event))) = events.pop() {
        match event {
            Event::Slept(model) => policy.slept(now_us, model),
            Event::Woke(model) => policy.woke(now_us, model),
            Event::Ended(number) if !over[number] => {
                over[number] = true;
                served += 1;
                last_us = now_us;
                policy.ended(now_us, number);
            }
            Event::Arrives(number) => {
                if policy.offer(now_us, requests[number].model, number) {
                    let until_us = now_us + scenario.wait_us;
                    events.push(Reverse((until_us, Event::GivesUp(number))));
                } else {
                    over[number] = true;
                }
            }
            Event::GivesUp(number) if started[number].is_none() && !over[number] => {
                over[number] = true;
                policy.ended(now_us, number);
            }
            Event::Ended(_) | Event::GivesUp(_) | Event::Look => {}
        }
        for act in policy.act(now_us) {
            match act {
                Act::Start(number) => {
                    let request = &requests[number];
                    started[number] = Some(now_us);
                    firsts.push(now_us + request.first_us - request.arrived_us);
                    events.push(Reverse((now_us + request.whole_us, Event::Ended(number))));
                }
                Act::Refuse(number) => {
                    over[number] = true;
                    policy.ended(now_us, number);
                }
                Act::Sleep(model) => {
                    let at_us = now_us + scenario.moves.sleep_us;
                    events.push(Reverse((at_us, Event::Slept(model))));
                }
                Act::Wake(model) => {
                    switches += 1;
                    let at_us = now_us + scenario.moves.wake_us;
                    events.push(Reverse((at_us, Event::Woke(model))));
                }
            }
        }
        let has_more = over.iter().any(|ended| !ended);
        if has_more && let Some(next_us) = policy.next_us(now_us) {
            let known = events
                .iter()
                .any(|Reverse((at_us, event))| *event == Event::Look && *at_us <= next_us);
            if !known {
                events.push(Reverse((next_us, Event::Look)));
            }
        }
    }
    firsts.sort_unstable();
    let at = |permille: usize| {
        firsts.get((firsts.len() * permille / 1_000).min(firsts.len().saturating_sub(1)))
    };
    let ms = |permille| at(permille).map_or(0, |us| us / 1_000);
    Figures {
        arrived: requests.len(),
        served,
        failed: requests.len() - served,
        first_p50_ms: ms(500),
        first_p99_ms: ms(990),
        switches,
        per_minute: served as f64 * 60e6 / (last_us.max(1) as f64),
    }
}
