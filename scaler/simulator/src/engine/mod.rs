//! Event-driven simulation of one policy on one scenario.

mod event;
mod function;
mod instance;
mod joint;
mod scale;

use tetris_scaler_core::ScaleInPolicy;
use tetris_simulation::Rng;

use crate::catalog::{Application, Function};
use crate::cluster::Cluster;
use crate::error::SimulationError;
use crate::outcome::{RunOutcome, Samples, Series};
use crate::policy::Policy;
use crate::scenario::Scenario;
use crate::trace::{Arrivals, rates};

use event::{Events, What};
use function::State;
use instance::{Instance, Job, Next, Phase};
use joint::Deciding;

/// Runs `policy` on `scenario`.
///
/// The gateway sends a request to the ready instance of its function with the smallest backlog, or
/// keeps it until an instance has room. Instances work as in `instance`. Every few seconds the
/// scaler makes a pass over the requests since the last one. It starts instances for the load that
/// starting and ready ones do not carry with headroom, and releases instances that the load of a
/// whole window does not need. An instance is ready once its container is up and it has loaded the
/// tensors missing on its node. At the start of the simulation it is ready at once.
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
    arrivals: Vec<Arrivals>,
    cluster: Cluster,
    instances: Vec<Instance>,
    events: Events,
    rng: Rng,
    now_us: u64,
    deciding: Deciding,
    counts: RunOutcome,
    served: u64,
    memory_bytes: Vec<u64>,
    cpu_millis: Vec<u64>,
    instance_counts: Vec<u64>,
    decision_us: Vec<u64>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, policy: Policy) -> Result<Self, SimulationError> {
        let (functions, routes) = routes(scenario)?;
        let states = functions
            .iter()
            .map(|_| State::try_new(scenario.platform.window_ms));
        let arrivals = scenario.applications.iter().zip(0..);
        let arrivals = arrivals.map(|(&one, number)| arrivals_of(scenario, one, number));
        let mut simulation = Self {
            scenario,
            policy,
            scale_in: ScaleInPolicy::try_new(scenario.platform.scale_in)?,
            states: states.collect::<Result<_, _>>()?,
            arrivals: arrivals.collect(),
            cluster: Cluster::try_new(scenario.nodes, policy.shares())?,
            deciding: Deciding::new(&functions),
            functions,
            routes,
            instances: Vec::new(),
            events: Events::default(),
            rng: Rng::new(scenario.seed, 0),
            now_us: 0,
            counts: RunOutcome::default(),
            served: 0,
            memory_bytes: Vec::new(),
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
        let chosen = self.rng.below(choices.len() as u64) as usize;
        let Some(&function) = choices.get(chosen) else {
            return;
        };
        let slo_us = self
            .functions
            .get(function)
            .map_or(0, |function| function.slo.us());
        job.allowed_us += slo_us;
        if let Some(state) = self.states.get_mut(function) {
            state.arrived += 1;
            let full = state.least_loaded().is_none();
            self.counts.waited += u64::from(full);
            state.waiting.push_back(job);
        }
        self.dispatch(function);
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
            let Some(state) = self.states.get_mut(function) else {
                return;
            };
            let Some(at) = state.least_loaded() else {
                return;
            };
            let Some(job) = state.waiting.pop_front() else {
                return;
            };
            if let Some(instance) = self.instances.get_mut(at) {
                instance.take(self.now_us, job);
                state.list(at, instance);
            }
            self.work(at);
        }
    }

    /// Starts batches while there are idle threads and requests for them.
    fn work(&mut self, at: usize) {
        let Some(instance) = self.instances.get_mut(at) else {
            return;
        };
        loop {
            match instance.next(self.now_us) {
                Next::Work(jobs) => {
                    let model = self.functions.get(instance.function).map(|one| one.model);
                    let cpu = instance.configuration.cpu_millis();
                    let threads = u64::from(instance.configuration.concurrency());
                    let whole =
                        model.map_or(0, |model| model.latency_us(cpu, jobs.len() as u64, threads));
                    let least = self.scenario.platform.least_latency_permille;
                    let took_us = whole * self.rng.between(least, 1_000) / 1_000;
                    let done = What::Done { instance: at, jobs };
                    self.events.push(self.now_us + took_us, done);
                }
                Next::Wait(until_us) => {
                    self.events.push(until_us, What::Waited { instance: at });
                    break;
                }
                Next::Nothing => break,
            }
        }
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
            state.list(at, instance);
        }
        self.dispatch(function);
    }

    fn done(&mut self, at: usize, jobs: Vec<Job>) {
        let Some(instance) = self.instances.get_mut(at) else {
            return;
        };
        instance.done(jobs.len());
        let function = instance.function;
        let left = instance.phase == Phase::Draining && instance.outstanding() == 0;
        if let Some(state) = self.states.get_mut(function) {
            state.list(at, instance);
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
        let tick_s = self.scenario.platform.tick_s;
        let first_s = self.scenario.warm_up_s.next_multiple_of(tick_s);
        RunOutcome {
            series: Series::of(first_s, tick_s, &self.memory_bytes, &self.cpu_millis),
            violations: self.counts.violations + unserved,
            memory_bytes: Samples::of(self.memory_bytes),
            cpu_millis: Samples::of(self.cpu_millis),
            instances: Samples::of(self.instance_counts),
            decisions: self.decision_us.len() as u64,
            decision_us: Samples::of(self.decision_us),
            ..self.counts
        }
    }
}

/// Returns the requests of one application, the `number`th of the scenario.
fn arrivals_of(scenario: &Scenario, application: Application, number: u64) -> Arrivals {
    let seed = scenario.seed.wrapping_add(number << 32);
    let mean = scenario.mean_of(application);
    let trace = rates(scenario.kind, scenario.seconds, mean, seed);
    Arrivals::new(trace, scenario.seed, number)
}

/// Returns the functions of all applications, and each application's stages. Applications share
/// tensors but no functions, as each has its own objective and owner.
fn routes(scenario: &Scenario) -> Result<(Vec<Function>, Vec<Route>), SimulationError> {
    let (mut functions, mut routes) = (Vec::new(), Vec::new());
    for application in &scenario.applications {
        let mut route = Route::new();
        for stage in application.stages() {
            let first = functions.len();
            for &(model, variant) in *stage {
                functions.push(Function::try_new(model, variant)?);
            }
            route.push((first..functions.len()).collect());
        }
        routes.push(route);
    }
    Ok((functions, routes))
}
