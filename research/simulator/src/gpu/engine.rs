//! The engine: requests, GPUs that execute them, and loads over links that neighbors share.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_dispatch::gpu::{
    Assignment, GpuId, GpuModel, GpuRequest, GpuScheduler, ModelId, Source, Topology,
};
use tetris_scaler_dispatch::{Outcome, RequestId};

use crate::events::Events;

use super::idle::{IdleModels, Limits};
use super::links::Links;
use super::record::{GpuRecords, Record};

/// An occurrence at a moment known in advance.
enum Event {
    Arrival(GpuRequest),
    /// The load of a GPU starts to move bytes.
    Transfer(GpuId, u64),
    /// The request of a GPU has its result.
    Done(GpuId, u64),
    /// A request may still wait, and leaves then.
    Timeout(GpuRequest),
    /// A model of a GPU may have been idle for as long as it stays.
    Idle(GpuId, ModelId),
}

/// A request on a GPU.
struct Run {
    /// Number of the run, since an event may come after its run has ended.
    number: u64,
    assignment: Assignment,
    given_us: u64,
}

/// A run of one scheduler.
pub(super) struct Engine<'a> {
    pub scheduler: GpuScheduler,
    pub topology: &'a Topology,
    pub models: &'a [GpuModel],
    /// Model whose copies are counted.
    pub watched: ModelId,
    /// Limits of waiting requests and of idle models.
    pub limits: Limits,
}

impl Engine<'_> {
    /// Serves all requests, which are in the order of their arrival.
    pub(super) fn run(mut self, requests: &[GpuRequest]) -> GpuRecords {
        let mut events = Events::default();
        for &request in requests {
            events.push(request.arrived_us, Event::Arrival(request));
        }
        let mut records = GpuRecords::new(self.topology.gpus.len());
        let mut links = Links::default();
        let mut running: BTreeMap<GpuId, Run> = BTreeMap::new();
        let mut waiting: BTreeSet<RequestId> = BTreeSet::new();
        let mut idle = IdleModels::default();
        let mut number = 0;
        loop {
            let moments = [events.next_us(), links.next_end_us()];
            let Some(now_us) = moments.into_iter().flatten().min() else {
                break;
            };
            records.pass(now_us, self.scheduler.replicas(self.watched));
            for gpu in links.ended(now_us) {
                self.scheduler.loaded(gpu);
                if let Some(run) = running.get(&gpu) {
                    events.push(self.result_us(run, now_us), Event::Done(gpu, run.number));
                }
            }
            let due = events.next_us().is_some_and(|at| at <= now_us);
            if let Some((_, event)) = due.then(|| events.pop()).flatten() {
                match event {
                    Event::Arrival(request) => {
                        if self.scheduler.offer(request).is_err() {
                            records.add(Record::refused(&request));
                        } else if let Some(after_us) = self.limits.timeout_us {
                            waiting.insert(request.id);
                            events.push(now_us + after_us, Event::Timeout(request));
                        }
                    }
                    Event::Transfer(gpu, of) => {
                        let run = running.get(&gpu).filter(|run| run.number == of);
                        if let Some(load) = run.and_then(|run| run.assignment.load.as_ref()) {
                            links.start(now_us, self.topology, gpu, load.source, load.bytes);
                        }
                    }
                    Event::Done(gpu, of) => {
                        if running.get(&gpu).is_some_and(|run| run.number == of)
                            && let Some(run) = running.remove(&gpu)
                        {
                            let id = run.assignment.request.id;
                            self.scheduler.complete(now_us, id, Outcome::Served);
                            records.add(Record::served(&run.assignment, run.given_us, now_us));
                            records.busy(gpu, now_us - run.given_us);
                            records.infer_us += self.model(&run).map_or(0, |model| model.infer_us);
                            let model = run.assignment.request.model;
                            if let Some(at_us) =
                                idle.start(now_us, &mut self.scheduler, &self.limits, gpu, model)
                            {
                                events.push(at_us, Event::Idle(gpu, model));
                            }
                        }
                    }
                    Event::Timeout(request) => {
                        if waiting.remove(&request.id) {
                            self.scheduler.cancel(now_us, request.id);
                            records.add(Record::refused(&request));
                        }
                    }
                    Event::Idle(gpu, model) => {
                        idle.expire(now_us, &mut self.scheduler, &self.limits, gpu, model);
                    }
                }
            }
            while let Some(refused) = self.scheduler.reject(now_us) {
                waiting.remove(&refused.id);
                records.add(Record::refused(&refused));
            }
            while let Some(assignment) = self.scheduler.dispatch(now_us) {
                let gpu = assignment.gpu;
                waiting.remove(&assignment.request.id);
                idle.stop(gpu, assignment.request.model);
                number += 1;
                let run = Run {
                    number,
                    assignment,
                    given_us: now_us,
                };
                match &run.assignment.load {
                    None => events.push(self.result_us(&run, now_us), Event::Done(gpu, number)),
                    Some(load) => {
                        records.load(load.bytes, load.source == Source::Host);
                        let setup = self.model(&run).map_or(0, |model| model.setup_us);
                        events.push(now_us + setup, Event::Transfer(gpu, number));
                    }
                }
                running.insert(gpu, run);
            }
        }
        records
    }

    fn model(&self, run: &Run) -> Option<&GpuModel> {
        self.models.get(run.assignment.request.model.0 as usize)
    }

    /// Time of the result, `now_us` being the end of the load, or the start where there is none.
    fn result_us(&self, run: &Run, now_us: u64) -> u64 {
        let Some(model) = self.model(run) else {
            return now_us;
        };
        if run.assignment.load.is_none() {
            return now_us + model.infer_us;
        }
        let computed = run.given_us + model.setup_us + model.infer_us;
        computed.max(now_us + model.after_load_us)
    }
}
