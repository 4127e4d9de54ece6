//! A function in the cluster: its instances, its dispatcher, and its load.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{Backlog, Configuration, LoadPeak, Rate, Slo};
use tetris_scaler_dispatch::{Capacity, Dispatcher, InstanceId, Outcome, RequestId, Rules};

use super::counted_load::CountedLoad;
use super::instance::{Instance, Phase};
use super::job::Job;
use super::load_meter::LoadMeter;
use crate::error::SimulationError;
use crate::scenario::{LoadSource, Scenario};

/// State of a function.
#[derive(Clone, Debug)]
pub(super) struct State {
    slo: Slo,
    /// Instances that still exist.
    pub(super) members: BTreeSet<usize>,
    dispatcher: Dispatcher,
    /// Requests that wait at the gateway.
    waiting: BTreeMap<RequestId, Job>,
    /// Number of requests that came.
    arrivals: u64,
    meter: Meter,
    pub(super) peak: LoadPeak,
}

/// Load as the operator measures it.
#[derive(Clone, Debug)]
enum Meter {
    Scraped(LoadMeter),
    Counted(CountedLoad),
}

impl State {
    pub(super) fn try_new(
        scenario: &Scenario,
        slo: Slo,
        before: Rate,
    ) -> Result<Self, SimulationError> {
        let platform = &scenario.assumptions.platform;
        let meter = match scenario.loads {
            LoadSource::Prometheus => {
                let (scrape_s, window_s) = (platform.scrape_s, platform.load_window_s);
                Meter::Scraped(LoadMeter::new(scrape_s, window_s, before))
            }
            LoadSource::Gateways => Meter::Counted(CountedLoad::new(before)),
        };
        Ok(Self {
            slo,
            members: BTreeSet::new(),
            dispatcher: Dispatcher::new(rules(slo)),
            waiting: BTreeMap::new(),
            arrivals: 0,
            meter,
            peak: LoadPeak::try_new(platform.window_s.saturating_mul(1_000))?,
        })
    }

    /// Counts a request.
    pub(super) fn arrived(&mut self, now_us: u64) {
        match &mut self.meter {
            Meter::Scraped(scraped) => scraped.arrived(now_us),
            Meter::Counted(counted) => counted.arrived(),
        }
    }

    /// Returns the load at `now_us`, as the operator measures it.
    pub(super) fn load(&mut self, now_us: u64) -> Rate {
        match &mut self.meter {
            Meter::Scraped(scraped) => scraped.load(now_us),
            Meter::Counted(counted) => {
                let oldest = self.waiting.values().next();
                let waits_us = oldest.map_or(0, |job| now_us.saturating_sub(job.routed_us));
                let backlog = Backlog {
                    waiting: self.waiting.len() as u64,
                    is_late: waits_us > self.slo.us(),
                };
                counted.load(now_us, backlog)
            }
        }
    }

    /// Queues a request at the gateway, and returns its number.
    pub(super) fn offer(&mut self, now_us: u64, mut job: Job) -> RequestId {
        job.request = RequestId(self.arrivals);
        self.arrivals += 1;
        // A request that is refused would never be served, and count as late. These rules refuse none.
        if self.dispatcher.offer(now_us, job.request, None).is_ok() {
            self.waiting.insert(job.request, job);
        }
        job.request
    }

    /// Returns true if the request waits at the gateway.
    pub(super) fn waits(&self, request: RequestId) -> bool {
        self.waiting.contains_key(&request)
    }

    /// Returns the next request that goes to an instance, with the instance.
    pub(super) fn dispatch(&mut self, now_us: u64) -> Option<(usize, Job)> {
        let dispatch = self.dispatcher.dispatch(now_us)?;
        let job = self.waiting.remove(&dispatch.request)?;
        Some((dispatch.instance.0 as usize, job))
    }

    /// Ends requests of an instance.
    pub(super) fn complete(&mut self, now_us: u64, jobs: &[Job]) {
        for job in jobs {
            self.dispatcher
                .complete(now_us, job.request, Outcome::Served);
        }
    }

    /// Gives requests to a ready instance from now on.
    pub(super) fn ready(&mut self, now_us: u64, at: usize, configuration: &Configuration) {
        let capacity = Capacity::of(configuration, self.slo);
        self.dispatcher.add_instance(now_us, id(at), capacity);
    }

    /// Gives no more requests to an instance.
    pub(super) fn drain(&mut self, at: usize) {
        self.dispatcher.drain_instance(id(at));
    }

    /// Forgets an instance without requests.
    pub(super) fn remove(&mut self, at: usize) {
        self.members.remove(&at);
        self.dispatcher.remove_instance(id(at));
    }

    /// Returns the capacity of its starting and ready instances.
    pub(super) fn capacity(&self, instances: &[Instance]) -> Rate {
        let members = self.members.iter().filter_map(|&at| instances.get(at));
        let staying =
            members.filter(|member| matches!(member.phase, Phase::Starting | Phase::Ready));
        staying.map(|member| member.configuration.rate()).sum()
    }
}

/// Returns the rules of the simulated gateway: the usual ones, but no request is refused or expires,
/// however long the queue. Every request of a trace counts, and a policy with too few instances must
/// not look better because the gateway turned requests away. Instances do not fail here.
fn rules(slo: Slo) -> Rules {
    let mut rules = Rules::new(slo);
    rules.queue = usize::MAX;
    rules.wait_us = u64::MAX;
    rules
}

fn id(at: usize) -> InstanceId {
    InstanceId(at as u64)
}
