//! Gateways before the instances of a function.

use std::collections::BTreeMap;

use tetris_scaler_dispatch::{Capacity, Dispatcher, InstanceId, Outcome, RequestId, Rules};
use tetris_simulation::Rng;

use super::case::FunctionCase;
use super::proxy::Proxy;
use super::request::Request;
use super::rule::Rule;

/// Gateways of a function under one rule.
#[derive(Debug)]
pub(super) enum Gateways {
    /// A proxy without a queue.
    Proxy(Proxy),
    /// Gateways with dispatchers.
    Dispatchers(Dispatchers),
}

impl Gateways {
    pub(super) fn new(case: &FunctionCase, rule: Rule) -> Self {
        match rule.dispatchers() {
            0 => Self::Proxy(Proxy::new(
                case.instances.len(),
                rule == Rule::LeastConnections,
            )),
            count => Self::Dispatchers(Dispatchers::new(case, count)),
        }
    }

    /// Takes a request that arrives.
    pub(super) fn arrives(&mut self, now_us: u64, request: Request) {
        match self {
            Self::Proxy(proxy) => proxy.arrives(request),
            Self::Dispatchers(all) => all.arrives(now_us, request),
        }
    }

    /// Returns the next request that goes to an instance, with the instance.
    pub(super) fn next(&mut self, now_us: u64) -> Option<(usize, Request)> {
        match self {
            Self::Proxy(proxy) => proxy.next(),
            Self::Dispatchers(all) => all.next(now_us),
        }
    }

    /// Ends requests of an instance.
    pub(super) fn complete(&mut self, now_us: u64, at: usize, requests: &[Request]) {
        match self {
            Self::Proxy(proxy) => proxy.complete(at, requests.len() as u64),
            Self::Dispatchers(all) => all.complete(now_us, requests),
        }
    }
}

/// Dispatchers before the same instances. Each request comes to one of them, at random.
#[derive(Debug)]
pub(super) struct Dispatchers {
    all: Vec<Dispatcher>,
    waiting: BTreeMap<u64, Request>,
    rng: Rng,
}

impl Dispatchers {
    fn new(case: &FunctionCase, count: u32) -> Self {
        let mut rules = Rules::new(case.slo);
        rules.gateways = count;
        // As behind the other rules, no request is refused or expires.
        rules.queue = usize::MAX;
        rules.wait_us = u64::MAX;
        let mut dispatcher = Dispatcher::new(rules);
        for (number, configuration) in (0..).zip(&case.instances) {
            let capacity = Capacity {
                batch_wait_us: case.batch_wait_us(configuration),
                ..Capacity::of(configuration, case.slo)
            };
            dispatcher.add_instance(0, InstanceId(number), capacity);
        }
        Self {
            all: vec![dispatcher; count as usize],
            waiting: BTreeMap::new(),
            rng: case.gateways(),
        }
    }

    fn arrives(&mut self, now_us: u64, mut request: Request) {
        request.gateway = self.rng.below(self.all.len() as u64) as usize;
        let id = RequestId(request.number);
        let gateway = self.all.get_mut(request.gateway);
        if gateway.is_some_and(|gateway| gateway.offer(now_us, id, None).is_ok()) {
            self.waiting.insert(request.number, request);
        }
    }

    fn next(&mut self, now_us: u64) -> Option<(usize, Request)> {
        let dispatch = self
            .all
            .iter_mut()
            .find_map(|entry| entry.dispatch(now_us))?;
        let request = self.waiting.remove(&dispatch.request.0)?;
        Some((dispatch.instance.0 as usize, request))
    }

    fn complete(&mut self, now_us: u64, requests: &[Request]) {
        for request in requests {
            if let Some(one) = self.all.get_mut(request.gateway) {
                one.complete(now_us, RequestId(request.number), Outcome::Served);
            }
        }
    }
}
