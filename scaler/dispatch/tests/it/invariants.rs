//! Invariants under any sequence of events.

use proptest::prelude::*;
use tetris_scaler_dispatch::{Outcome, RequestId};

use crate::world::{MS, World, capacity, rules};

#[derive(Clone, Debug)]
enum Event {
    Offer(u8, Option<u64>),
    OfferAmong(Option<u64>, Vec<u64>),
    Wait(u64),
    Complete(usize, bool),
    GiveBack(usize),
    Cancel(usize),
    Add(u64, u32, u32, u64),
    Drain(u64),
    Remove(u64),
    Gateways(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let which = 0..64_usize;
    let instance = 0..6_u64;
    let wait = proptest::option::weighted(0.3, 0..2_000 * MS);
    let event = prop_oneof![
        3 => (wait.clone(), proptest::collection::vec(instance.clone(), 0..3)).prop_map(|(wait, among)| Event::OfferAmong(wait, among)),
        8 => (1..12_u8, wait).prop_map(|(count, wait)| Event::Offer(count, wait)),
        6 => (0..400 * MS).prop_map(Event::Wait),
        9 => (which.clone(), proptest::bool::weighted(0.8)).prop_map(|(at, served)| Event::Complete(at, served)),
        2 => which.clone().prop_map(Event::GiveBack),
        2 => which.prop_map(Event::Cancel),
        4 => (instance.clone(), 1..5_u32, 1..4_u32, 1..200_u64).prop_map(|(at, b, p, l)| Event::Add(at, b, p, l)),
        1 => instance.clone().prop_map(Event::Drain),
        1 => instance.prop_map(Event::Remove),
        1 => (1..4_u32).prop_map(Event::Gateways),
    ];
    proptest::collection::vec(event, 0..120)
}

fn nth(keys: impl ExactSizeIterator<Item = u64>, at: usize) -> Option<u64> {
    let count = keys.len();
    keys.into_iter().nth(at.checked_rem(count)?)
}

fn happens(world: &mut World, event: &Event) {
    match *event {
        Event::Offer(count, wait_us) => {
            for _ in 0..count {
                world.offer(wait_us);
            }
        }
        Event::OfferAmong(wait_us, ref among) => {
            world.offer_among(wait_us, among);
        }
        Event::Wait(us) => world.now_us += us,
        Event::Complete(at, served) => {
            if let Some(id) = nth(world.in_flight.keys().copied(), at) {
                world.complete(
                    id,
                    if served {
                        Outcome::Served
                    } else {
                        Outcome::Failed
                    },
                );
            }
        }
        Event::GiveBack(at) => {
            if let Some(id) = nth(world.in_flight.keys().copied(), at) {
                world.give_back(id);
            }
        }
        Event::Cancel(at) => {
            let all: Vec<u64> = world
                .waiting
                .keys()
                .chain(world.in_flight.keys())
                .copied()
                .collect();
            if let Some(id) = nth(all.into_iter(), at) {
                world.cancel(id);
            }
        }
        Event::Add(at, batch, concurrency, latency_ms) => {
            world.add(at, capacity(batch, concurrency, latency_ms));
        }
        Event::Drain(at) => world.drain(at),
        Event::Remove(at) => world.remove(at),
        Event::Gateways(gateways) => {
            let mut rules = *world.dispatcher.rules();
            rules.gateways = gateways;
            world.dispatcher.set_rules(rules);
        }
    }
    world.expire();
    world.dispatch();
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_request_is_lost_or_given_twice_and_no_instance_idles_while_one_waits(events in events()) {
        let mut world = World::new(rules(300));
        for event in &events {
            happens(&mut world, event);
        }
    }

    /// No starvation: once instances answer again, every request ends, the oldest first.
    #[test]
    fn every_request_ends_once_an_instance_answers(events in events()) {
        let mut world = World::new(rules(300));
        let mut accepted = 0;
        for event in &events {
            happens(&mut world, event);
        }
        accepted += world.waiting.len() + world.in_flight.len() + world.ended.len();
        world.add(7, capacity(2, 2, 10));
        for _ in 0..10_000 {
            if world.waiting.is_empty() && world.in_flight.is_empty() {
                break;
            }
            let all: Vec<u64> = world.in_flight.keys().copied().collect();
            for id in all {
                world.complete(id, Outcome::Served);
            }
            world.now_us += 10 * MS;
            world.expire();
            world.dispatch();
            world.check();
        }
        prop_assert_eq!(world.ended.len(), accepted);
    }

    /// The owner sleeps until `next_us`: then something changes, or nothing waits.
    #[test]
    fn nothing_happens_before_the_time_that_is_told(events in events(), early in 1..1_000_u64) {
        let mut world = World::new(rules(300));
        for event in &events {
            happens(&mut world, event);
        }
        let Some(next_us) = world.dispatcher.next_us() else {
            prop_assert!(world.waiting.is_empty());
            return Ok(());
        };
        prop_assert!(next_us >= world.now_us || !world.waiting.is_empty());
        world.now_us = world.now_us.max(next_us.saturating_sub(early));
        if world.now_us < next_us {
            prop_assert!(world.expire().is_empty());
            prop_assert!(world.dispatch().is_empty());
        }
    }

    #[test]
    fn outcomes_of_unknown_requests_change_nothing(events in events(), id in 1_000_000..u64::MAX) {
        let mut world = World::new(rules(300));
        for event in &events {
            happens(&mut world, event);
        }
        world.dispatcher.complete(world.now_us, RequestId(id), Outcome::Failed);
        world.dispatcher.give_back(world.now_us, RequestId(id));
        world.dispatcher.cancel(RequestId(id));
        world.check();
    }
}
