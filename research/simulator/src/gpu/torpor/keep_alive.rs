//! INFless-KA: containers that start with a request and go after a lifespan without one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tetris_scaler_dispatch::gpu::GpuRequest;

use crate::gpu::record::{GpuRecords, Record};

use super::containers::FreeMemory;
use super::node::NodeSetting;

/// An event of the run. Earlier ones of the list come first at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The container of a function has started.
    Ready(usize),
    /// A request arrives.
    Arrival(usize),
    /// The container of a function may have been idle for its lifespan.
    Idle(usize),
}

/// Container of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Absent,
    /// Waits for memory.
    Wanted,
    Starting(usize),
    /// Runs on a GPU, and has been or will be idle since a time.
    Ready {
        gpu: usize,
        idle_us: u64,
    },
}

struct Function {
    container: Container,
    lifespan_us: u64,
    /// Requests that wait for the container.
    waiting: Vec<usize>,
}

struct Run<'a> {
    setting: &'a NodeSetting,
    requests: &'a [GpuRequest],
    functions: Vec<Function>,
    /// Functions whose container waits for memory, in their order.
    wanted: Vec<usize>,
    memory: FreeMemory,
    /// Time at which each GPU has computed all that it was given.
    free_us: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    records: GpuRecords,
}

/// Runs functions in containers, until the end of the setting. Those that fit are warm at the start. A container goes when its
/// function had no request for the setting's percentile of the times between its requests; other
/// functions then start.
pub(super) fn run(setting: &NodeSetting, requests: &[GpuRequest], memory_mb: u64) -> GpuRecords {
    let functions = (0..setting.functions).map(|function| Function {
        container: Container::Absent,
        lifespan_us: lifespan_us(requests, function, setting.lifespan_percent),
        waiting: Vec::new(),
    });
    let mut run = Run {
        setting,
        requests,
        functions: functions.collect(),
        wanted: Vec::new(),
        memory: FreeMemory::new(setting.gpus, memory_mb),
        free_us: vec![0; setting.gpus as usize],
        events: BinaryHeap::new(),
        records: GpuRecords::new(setting.gpus as usize),
    };
    for (number, request) in requests.iter().enumerate() {
        run.at(request.arrived_us, Event::Arrival(number));
    }
    for function in 0..run.functions.len() {
        run.warm_up(function);
    }
    let end_us = setting.seconds * 1_000_000;
    while let Some(Reverse((now_us, event))) = run.events.pop() {
        if now_us > end_us {
            break;
        }
        match event {
            Event::Ready(function) => run.ready(now_us, function),
            Event::Arrival(number) => run.arrival(now_us, number),
            Event::Idle(function) => run.idle(now_us, function),
        }
    }
    run.refuse_the_rest();
    run.records
}

/// Percentile of the times between requests of a function, in microseconds: the history that its
/// policy knows is the run itself.
fn lifespan_us(requests: &[GpuRequest], function: u32, percent: u64) -> u64 {
    let of_function = requests
        .iter()
        .filter(|request| request.function == function);
    let arrivals: Vec<u64> = of_function.map(|request| request.arrived_us).collect();
    let mut gaps: Vec<u64> = arrivals.windows(2).filter_map(gap).collect();
    gaps.sort_unstable();
    let at = (gaps.len() as u64 * percent)
        .div_ceil(100)
        .saturating_sub(1);
    // Without a history it stays.
    gaps.get(at as usize).copied().unwrap_or(u64::MAX)
}

fn gap(pair: &[u64]) -> Option<u64> {
    let [before, after] = pair else { return None };
    Some(after - before)
}

impl Run<'_> {
    fn at(&mut self, at_us: u64, event: Event) {
        self.events.push(Reverse((at_us, event)));
    }

    fn warm_up(&mut self, function: usize) {
        if let Some(gpu) = self.take_memory(function) {
            self.set(function, Container::Ready { gpu, idle_us: 0 });
            self.watch(function, 0);
        }
    }

    fn arrival(&mut self, now_us: u64, number: usize) {
        let Some(request) = self.requests.get(number) else {
            return;
        };
        let function = request.function as usize;
        let Some(known) = self.functions.get_mut(function) else {
            return;
        };
        if let Container::Ready { gpu, .. } = known.container {
            self.execute(now_us, number, gpu, false);
            return;
        }
        known.waiting.push(number);
        if known.container == Container::Absent {
            known.container = Container::Wanted;
            self.wanted.push(function);
            self.start_wanted(now_us);
        }
    }

    /// Starts containers in the order of their requests, where there is memory.
    fn start_wanted(&mut self, now_us: u64) {
        for function in std::mem::take(&mut self.wanted) {
            let cold_us = self.setting.kind(function as u32);
            let cold_us = cold_us.map_or(0, |(_, kind)| kind.cold_us);
            match self.take_memory(function) {
                Some(gpu) => {
                    self.set(function, Container::Starting(gpu));
                    self.at(now_us + cold_us, Event::Ready(function));
                }
                None => self.wanted.push(function),
            }
        }
    }

    fn ready(&mut self, now_us: u64, function: usize) {
        let Some(known) = self.functions.get_mut(function) else {
            return;
        };
        let Container::Starting(gpu) = known.container else {
            return;
        };
        let waiting = std::mem::take(&mut known.waiting);
        let idle_us = now_us;
        self.set(function, Container::Ready { gpu, idle_us });
        for number in waiting {
            self.execute(now_us, number, gpu, true);
        }
    }

    fn idle(&mut self, now_us: u64, function: usize) {
        let Some(known) = self.functions.get_mut(function) else {
            return;
        };
        let Container::Ready { gpu, idle_us } = known.container else {
            return;
        };
        if idle_us.saturating_add(known.lifespan_us) > now_us {
            return;
        }
        known.container = Container::Absent;
        let mb = self.container_mb(function);
        self.memory.give_back(gpu, mb);
        self.start_wanted(now_us);
    }

    /// Executes a request after those that the GPU has.
    fn execute(&mut self, now_us: u64, number: usize, gpu: usize, missed: bool) {
        let (Some(request), Some(free_us)) = (self.requests.get(number), self.free_us.get_mut(gpu))
        else {
            return;
        };
        let Some((_, kind)) = self.setting.kind(request.function) else {
            return;
        };
        let idle_us = now_us.max(*free_us) + kind.infer_us;
        *free_us = idle_us;
        self.records.add(Record {
            latency_us: Some(idle_us - request.arrived_us),
            service_us: kind.infer_us,
            missed,
            ..Record::refused(request)
        });
        let function = request.function as usize;
        self.set(function, Container::Ready { gpu, idle_us });
        self.watch(function, idle_us);
    }

    /// Looks at a container again when it has been idle for its lifespan.
    fn watch(&mut self, function: usize, idle_us: u64) {
        let lifespan_us = self
            .functions
            .get(function)
            .map(|function| function.lifespan_us);
        let until_us = lifespan_us.and_then(|us| idle_us.checked_add(us));
        if let Some(until_us) = until_us {
            self.at(until_us, Event::Idle(function));
        }
    }

    fn set(&mut self, function: usize, container: Container) {
        if let Some(known) = self.functions.get_mut(function) {
            known.container = container;
        }
    }

    fn take_memory(&mut self, function: usize) -> Option<usize> {
        let mb = self.container_mb(function);
        self.memory.take(mb)
    }

    fn container_mb(&self, function: usize) -> u64 {
        let kind = self.setting.kind(function as u32);
        kind.map_or(0, |(_, kind)| kind.native_mb)
    }

    /// Counts requests whose function never got memory.
    fn refuse_the_rest(&mut self) {
        let waiting = self.functions.iter().flat_map(|function| &function.waiting);
        for request in waiting.filter_map(|&number| self.requests.get(number)) {
            self.records.add(Record::refused(request));
        }
    }
}
