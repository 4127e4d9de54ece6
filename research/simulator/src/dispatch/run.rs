//! Simulation of one function under one rule.

use tetris_scaler_core::Configuration;

use super::batch_times::BatchTimes;
use super::case::FunctionCase;
use super::gateway::Gateways;
use super::outcome::Times;
use super::request::Request;
use super::rule::Rule;
use crate::events::Events;
use crate::server::{Next, Server};

#[derive(Clone, Debug)]
enum What {
    Arrival {
        number: u64,
    },
    /// The end of a batch's wait.
    Waited {
        at: usize,
    },
    Done {
        at: usize,
        requests: Vec<Request>,
    },
}

struct Run<'a> {
    instances: &'a [Configuration],
    servers: Vec<Server<Request>>,
    gateways: Gateways,
    events: Events<What>,
    batch_times: BatchTimes<'a>,
    now_us: u64,
}

/// Sends `requests` to the function under `rule`, at the times of `arrivals`, and adds the latencies of all but the
/// first tenth to `times`.
pub(super) fn run<'a>(
    case: &'a FunctionCase,
    rule: Rule,
    requests: u64,
    mut arrivals: impl Iterator<Item = u64>,
    batch_times: BatchTimes<'a>,
    times: &mut Times,
) {
    let mut run = Run {
        instances: &case.instances,
        servers: case
            .instances
            .iter()
            .map(|instance| Server::new(instance, case.batch_wait_us(instance)))
            .collect(),
        gateways: Gateways::new(case, rule),
        events: Events::default(),
        batch_times,
        now_us: 0,
    };
    let mut foresee = |number: u64, events: &mut Events<What>| {
        if let Some(at_us) = arrivals.next().filter(|_| number < requests) {
            events.push(at_us, What::Arrival { number });
        }
    };
    foresee(0, &mut run.events);
    while let Some((now_us, what)) = run.events.pop() {
        run.now_us = now_us;
        match what {
            What::Arrival { number } => {
                foresee(number + 1, &mut run.events);
                run.arrives(number);
            }
            What::Waited { at } => run.work(at),
            What::Done { at, requests: done } => {
                let batch = case.instances.get(at).map_or(1, Configuration::batch);
                times.executes(done.len(), batch);
                for request in done.iter().filter(|entry| entry.number >= requests / 10) {
                    times.add(now_us.saturating_sub(request.arrived_us), case.slo.us());
                }
                run.done(at, &done);
            }
        }
    }
}

impl Run<'_> {
    fn arrives(&mut self, number: u64) {
        let request = Request {
            number,
            arrived_us: self.now_us,
            gateway: 0,
        };
        self.gateways.arrives(self.now_us, request);
        self.dispatch();
    }

    /// Gives requests to instances.
    fn dispatch(&mut self) {
        while let Some((at, request)) = self.gateways.next(self.now_us) {
            if let Some(server) = self.servers.get_mut(at) {
                server.take(self.now_us, request);
            }
            self.work(at);
        }
    }

    /// Starts batches while there are idle threads and requests for them.
    fn work(&mut self, at: usize) {
        loop {
            let server = self.servers.get_mut(at);
            match server.map(|server| server.next(self.now_us)) {
                Some(Next::Work(requests)) => {
                    let Some(configuration) = self.instances.get(at) else {
                        break;
                    };
                    let took_us = self.batch_times.next(configuration, requests.len());
                    self.events
                        .push(self.now_us + took_us, What::Done { at, requests });
                }
                Some(Next::Wait(until_us)) => {
                    self.events.push(until_us, What::Waited { at });
                    break;
                }
                Some(Next::Nothing) | None => break,
            }
        }
    }

    fn done(&mut self, at: usize, requests: &[Request]) {
        if let Some(server) = self.servers.get_mut(at) {
            server.done(requests.len());
        }
        self.gateways.complete(self.now_us, at, requests);
        self.work(at);
        self.dispatch();
    }
}
