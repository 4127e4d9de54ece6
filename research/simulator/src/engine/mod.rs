//! Event-driven simulation of one policy on one scenario.

mod busy;
mod counted_load;
mod event;
mod function;
mod instance;
mod job;
mod joint;
mod load_meter;
mod scale;
mod setup;

use tetris_scaler_core::ScaleInPolicy;
use tetris_scaler_dispatch::RequestId;
use tetris_simulation::Rng;

use crate::catalog::Function;
use crate::cluster::Cluster;
use crate::error::SimulationError;
use crate::events::Events;
use crate::outcome::{RunOutcome, Samples, Series};
use crate::policy::Policy;
use crate::recorded::Requests;
use crate::scenario::Scenario;
use crate::server::Next;

use busy::Busy;
use event::What;
use function::State;
use instance::{Instance, Phase};
use job::Job;
use joint::Deciding;
use setup::{arrivals_of, first_loads, routes, rules};

/// Runs `policy` on `scenario`.
///
/// The gateway is that of `tetris_scaler_dispatch`, with one dispatcher for each function: requests
/// wait there until an instance has room. Instances work as in `server`: batches wait to be filled,
/// and for a thread. Busy neighbors make batches slower. Every few seconds the scaler makes a pass over the load of the last scrapes. It starts instances for the load that
/// starting and ready ones do not carry with headroom, and releases instances that the load of a
/// whole window does not need. An instance is ready once its server is up and it has loaded the
/// weights that it does not share. At the start of the simulation it is ready at once.
///
/// `clock` returns microseconds. Only [`RunOutcome::decision_us`] depends on it.
///
/// # Errors
///
/// Fails if a parameter is out of range, or if the policy has no configuration that meets an
/// objective.
pub fn simulate(
    scenario: &Scenario,
    policy: Policy,
    clock: &mut dyn FnMut() -> u64,
) -> Result<RunOutcome, SimulationError> {
    scenario.check()?;
    let mut simulation = Simulation::new(scenario, policy)?;
    while let Some((now_us, what)) = simulation.events.pop() {
        simulation.now_us = now_us;
        simulation.handle(what, clock)?;
    }
    Ok(simulation.outcome())
}

const SECOND_US: u64 = 1_000_000;

/// Functions of each stage of an application, by index.
type Route = Vec<Vec<usize>>;

struct Simulation<'a> {
    scenario: &'a Scenario,
    policy: Policy,
    scale_in: ScaleInPolicy,
    functions: Vec<Function>,
    states: Vec<State>,
    routes: Vec<Route>,
    arrivals: Vec<Requests>,
    cluster: Cluster,
    instances: Vec<Instance>,
    events: Events<What>,
    rng: Rng,
    now_us: u64,
    busy: Busy,
    deciding: Deciding,
    counts: RunOutcome,
    served: u64,
    memory_bytes: Vec<u64>,
    cached_bytes: Vec<u64>,
    cpu_millis: Vec<u64>,
    instance_counts: Vec<u64>,
    decision_us: Vec<u64>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, policy: Policy) -> Result<Self, SimulationError> {
        let (functions, routes) = routes(scenario)?;
        let platform = &scenario.assumptions.platform;
        let loads = first_loads(scenario, &functions, &routes).into_iter();
        let states = functions.iter().zip(loads);
        let states = states.map(|(entry, load)| State::try_new(scenario, entry.slo, load));
        let places = 0..scenario.applications.len();
        let arrivals = places.map(|place| arrivals_of(scenario, place));
        let mut simulation = Self {
            scenario,
            policy,
            scale_in: platform.scale_in()?,
            states: states.collect::<Result<_, _>>()?,
            arrivals: arrivals.collect::<Result<_, _>>()?,
            cluster: Cluster::try_new(scenario.nodes, rules(scenario, policy))?,
            busy: Busy::new(scenario.nodes),
            deciding: Deciding::new(&functions, platform.alpha_bytes_per_millicore),
            functions,
            routes,
            instances: Vec::new(),
            events: Events::default(),
            rng: Rng::new(scenario.seed, 0),
            now_us: 0,
            counts: RunOutcome::default(),
            served: 0,
            memory_bytes: Vec::new(),
            cached_bytes: Vec::new(),
            cpu_millis: Vec::new(),
            instance_counts: Vec::new(),
            decision_us: Vec::new(),
        };
        simulation.events.push(0, What::Tick);
        for application in 0..simulation.routes.len() {
            simulation.foresee(application);
        }
        Ok(simulation)
    }

    fn handle(
        &mut self,
        what: What,
        clock: &mut dyn FnMut() -> u64,
    ) -> Result<(), SimulationError> {
        match what {
            What::Arrival { application } => {
                self.foresee(application);
                let counted = self.now_us >= self.scenario.warm_up_s * SECOND_US;
                self.counts.requests += u64::from(counted);
                let arrived_us = self.now_us;
                self.route(Job {
                    application,
                    stage: 0,
                    arrived_us,
                    allowed_us: 0,
                    routed_us: arrived_us,
                    request: RequestId(0),
                });
            }
            What::Ready { instance } => self.ready(instance),
            What::Waited { instance } => self.work(instance),
            What::Done { instance, jobs } => self.done(instance, jobs),
            What::Tick => self.tick(clock)?,
        }
        Ok(())
    }

    /// Schedules the next request of an application.
    fn foresee(&mut self, application: usize) {
        let next = self.arrivals.get_mut(application).and_then(Iterator::next);
        if let Some(at_us) = next {
            self.events.push(at_us, What::Arrival { application });
        }
    }

    /// Sends a request to a function of its stage, or completes it after the last.
    fn route(&mut self, mut job: Job) {
        let stages = self.routes.get(job.application);
        let Some(choices) = stages.and_then(|stages| stages.get(job.stage)) else {
            self.finish(job);
            return;
        };
        let first_permille = self.scenario.assumptions.models.branch_permille;
        let other = choices.len() > 1 && self.rng.below(1_000) >= first_permille;
        let Some(&function) = choices.get(usize::from(other)) else {
            return;
        };
        let slo_us = self
            .functions
            .get(function)
            .map_or(0, |function| function.slo.us());
        job.allowed_us += slo_us;
        job.routed_us = self.now_us;
        let Some(state) = self.states.get_mut(function) else {
            return;
        };
        state.arrived(self.now_us);
        let request = state.offer(self.now_us, job);
        self.dispatch(function);
        let state = self.states.get(function);
        self.counts.waited += u64::from(state.is_some_and(|entry| entry.waits(request)));
    }

    fn finish(&mut self, job: Job) {
        if job.arrived_us < self.scenario.warm_up_s * SECOND_US {
            return;
        }
        self.served += 1;
        let took_us = self.now_us.saturating_sub(job.arrived_us);
        self.counts.violations += u64::from(took_us > job.allowed_us);
    }

    /// Gives waiting requests to instances with room.
    fn dispatch(&mut self, function: usize) {
        loop {
            let state = self.states.get_mut(function);
            let Some((at, job)) = state.and_then(|entry| entry.dispatch(self.now_us)) else {
                return;
            };
            if let Some(instance) = self.instances.get_mut(at) {
                instance.server.take(self.now_us, job);
                instance.taken += 1;
            }
            self.work(at);
        }
    }

    /// Starts batches while there are idle threads and requests for them.
    fn work(&mut self, at: usize) {
        loop {
            let instance = self.instances.get_mut(at);
            match instance.map(|instance| instance.server.next(self.now_us)) {
                Some(Next::Work(jobs)) => self.begin(at, jobs),
                Some(Next::Wait(until_us)) => {
                    self.events.push(until_us, What::Waited { instance: at });
                    break;
                }
                Some(Next::Nothing) | None => break,
            }
        }
    }

    /// Executes a batch on a thread that its instance has taken for it.
    fn begin(&mut self, at: usize, jobs: Vec<Job>) {
        let Some(instance) = self.instances.get(at) else {
            return;
        };
        let batch = instance.configuration.batch();
        self.counts.fill.add(jobs.len(), batch);
        let (node, thread_millis) = (instance.node, instance.thread_millis());
        let cpu = instance.configuration.cpu_millis();
        let threads = u64::from(instance.configuration.concurrency());
        let own_millis = thread_millis * u64::from(instance.server.busy());
        let model = self
            .functions
            .get(instance.function)
            .map(|function| function.model);
        let whole_us = model.map_or(0, |model| model.latency_us(cpu, jobs.len() as u64, threads));
        let platform = &self.scenario.assumptions.platform;
        let alone_us = whole_us * self.rng.between(platform.least_latency_permille, 1_000) / 1_000;
        self.busy.begin(node, thread_millis);
        let all_millis = self
            .cluster
            .nodes()
            .get(node)
            .map_or(0, |entry| entry.all.cpu_millis);
        let permille = platform.neighbors_permille;
        let took_us = self
            .busy
            .disturbed(node, alone_us, own_millis, all_millis, permille);
        if self.now_us >= self.scenario.warm_up_s * SECOND_US {
            for job in &jobs {
                let queue_us = self.now_us.saturating_sub(job.routed_us);
                self.counts.queue.add(queue_us);
            }
        }
        let done = What::Done { instance: at, jobs };
        self.events.push(self.now_us + took_us, done);
    }

    fn ready(&mut self, at: usize) {
        let Some(instance) = self.instances.get_mut(at) else {
            return;
        };
        if instance.phase != Phase::Starting {
            return;
        }
        instance.phase = Phase::Ready;
        let function = instance.function;
        if let Some(state) = self.states.get_mut(function) {
            state.ready(self.now_us, at, &instance.configuration);
        }
        self.dispatch(function);
    }

    fn done(&mut self, at: usize, jobs: Vec<Job>) {
        let Some(instance) = self.instances.get_mut(at) else {
            return;
        };
        instance.server.done(jobs.len());
        self.busy.end(instance.node, instance.thread_millis());
        let function = instance.function;
        let left = instance.phase == Phase::Draining && instance.server.outstanding() == 0;
        if let Some(state) = self.states.get_mut(function) {
            state.complete(self.now_us, &jobs);
        }
        self.work(at);
        if left {
            self.remove(at);
        }
        self.dispatch(function);
        for mut job in jobs {
            job.stage += 1;
            self.route(job);
        }
    }

    fn outcome(self) -> RunOutcome {
        let unserved = self.counts.requests.saturating_sub(self.served);
        let interval_s = self.scenario.interval_s();
        let first_s = self.scenario.warm_up_s.next_multiple_of(interval_s);
        RunOutcome {
            series: Series::of(first_s, interval_s, &self.memory_bytes, &self.cpu_millis),
            violations: self.counts.violations + unserved,
            memory_bytes: Samples::of(self.memory_bytes),
            cached_bytes: Samples::of(self.cached_bytes),
            cpu_millis: Samples::of(self.cpu_millis),
            instances: Samples::of(self.instance_counts),
            decisions: self.decision_us.len() as u64,
            decision_us: Samples::of(self.decision_us),
            ..self.counts
        }
    }
}
