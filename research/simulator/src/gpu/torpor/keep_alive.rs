//! INFless-KA: containers that start with a request and go after a lifespan without one, by the
//! rules of the authors' `baseline_keepalive.py`.
//!
//! Every two seconds those go whose function had no request for its lifespan, wanted ones
//! start where there is memory, and requests that waited for a container go to it. Three threads end
//! and start containers, each one batch of a decision at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tetris_scaler_dispatch::gpu::GpuRequest;

use crate::gpu::record::{GpuRecords, Record};

use super::containers::FreeMemory;
use super::node::NodeSetting;

/// Time between two decisions on containers, in microseconds.
const TICK_US: u64 = 2_000_000;

/// Number of threads that end and start containers: the script's pool has four, and one receives
/// requests.
const THREADS: usize = 3;
/// Time that containers take to stop (`docker stop -t 1`), in microseconds.
const STOP_US: u64 = 1_000_000;

/// An event of the run. Earlier ones of the list come first at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A container has stopped, and gives its megabytes of a GPU back.
    Stopped(usize, u64),
    /// The container of a function has started.
    Ready(usize),
    /// A request arrives.
    Arrival(usize),
    /// Containers go and start.
    Tick,
}

/// Container of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Absent,
    /// Waits for memory.
    Wanted,
    Starting(usize),
    /// Runs on a GPU; its last request was dispatched at a time.
    Ready {
        gpu: usize,
        last_us: u64,
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
    /// Time at which each thread has done its batches, in microseconds.
    threads_us: [u64; THREADS],
    /// Time at which each GPU has computed all that it was given.
    free_us: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    records: GpuRecords,
}

/// Runs functions in containers, until the end of the setting. Those that fit are warm at the
/// start, and need no request for it.
pub(super) fn run(setting: &NodeSetting, requests: &[GpuRequest], memory_mb: u64) -> GpuRecords {
    let start_us = setting.warm_us();
    let warm = requests.partition_point(|request| request.arrived_us < start_us);
    let requests = requests.get(warm..).unwrap_or_default();
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
        threads_us: [0; THREADS],
        free_us: vec![0; setting.gpus as usize],
        events: BinaryHeap::new(),
        records: GpuRecords::new(setting.gpus as usize),
    };
    for (number, request) in requests.iter().enumerate() {
        run.at(request.arrived_us, Event::Arrival(number));
    }
    for function in 0..run.functions.len() {
        run.warm_up(function, start_us);
    }
    run.at(start_us + TICK_US, Event::Tick);
    let end_us = start_us + setting.seconds * 1_000_000;
    while let Some(Reverse((now_us, event))) = run.events.pop() {
        if now_us > end_us {
            break;
        }
        match event {
            Event::Stopped(gpu, mb) => run.memory.give_back(gpu, mb),
            Event::Ready(function) => run.ready(now_us, function),
            Event::Arrival(number) => run.arrival(now_us, number),
            Event::Tick => run.tick(now_us),
        }
    }
    run.refuse_the_rest();
    run.records
}

/// Percentile of the times between requests of a function, in microseconds, between two of them in
/// proportion, as `numpy.percentile` has it. The history that its policy knows is the run itself.
fn lifespan_us(requests: &[GpuRequest], function: u32, percent: u64) -> u64 {
    let of_function = requests
        .iter()
        .filter(|request| request.function == function);
    let arrivals: Vec<u64> = of_function.map(|request| request.arrived_us).collect();
    let mut gaps: Vec<u64> = arrivals.windows(2).filter_map(gap).collect();
    gaps.sort_unstable();
    // Without a history it stays.
    percentile(&gaps, percent).unwrap_or(u64::MAX)
}

fn percentile(sorted: &[u64], percent: u64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    let place = last as u64 * percent;
    let (below, part) = ((place / 100) as usize, place % 100);
    let low = *sorted.get(below)?;
    let high = *sorted.get((below + 1).min(last))?;
    Some(low + (high - low) * part / 100)
}

fn gap(pair: &[u64]) -> Option<u64> {
    let [before, after] = pair else { return None };
    Some(after - before)
}

impl Run<'_> {
    fn at(&mut self, at_us: u64, event: Event) {
        self.events.push(Reverse((at_us, event)));
    }

    fn warm_up(&mut self, function: usize, last_us: u64) {
        if let Some(gpu) = self.take_memory(function) {
            self.set(function, Container::Ready { gpu, last_us });
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
        }
    }

    fn ready(&mut self, now_us: u64, function: usize) {
        if let Some(known) = self.functions.get_mut(function)
            && let Container::Starting(gpu) = known.container
        {
            let last_us = now_us;
            known.container = Container::Ready { gpu, last_us };
        }
    }

    fn tick(&mut self, now_us: u64) {
        self.end_idle(now_us);
        self.start_wanted(now_us);
        self.serve_waiting(now_us);
        self.at(now_us + TICK_US, Event::Tick);
    }

    /// Ends containers whose function had no request for its lifespan.
    fn end_idle(&mut self, now_us: u64) {
        let mut gone = Vec::new();
        for function in 0..self.functions.len() {
            let mb = self.container_mb(function);
            let Some(known) = self.functions.get_mut(function) else {
                continue;
            };
            if let Container::Ready { gpu, last_us } = known.container
                && known.waiting.is_empty()
                && now_us.saturating_sub(last_us) > known.lifespan_us
            {
                known.container = Container::Absent;
                gone.push((gpu, mb));
            }
        }
        if gone.is_empty() {
            return;
        }
        let end_us = self.batch(now_us, STOP_US);
        for (gpu, mb) in gone {
            self.at(end_us, Event::Stopped(gpu, mb));
        }
    }

    /// Starts containers in the order of their requests, where there is memory.
    fn start_wanted(&mut self, now_us: u64) {
        let mut batch = Vec::new();
        for function in std::mem::take(&mut self.wanted) {
            match self.take_memory(function) {
                Some(gpu) => {
                    self.set(function, Container::Starting(gpu));
                    batch.push(function);
                }
                None => self.wanted.push(function),
            }
        }
        let cold_us = |&function: &usize| {
            let kind = self.setting.kind(function as u32);
            kind.map_or(0, |(_, kind)| kind.cold_us)
        };
        let Some(longest_us) = batch.iter().map(cold_us).max() else {
            return;
        };
        let end_us = self.batch(now_us, longest_us);
        for function in batch {
            self.at(end_us, Event::Ready(function));
        }
    }

    /// Gives a batch to the thread that is free first. Returns the time of its end.
    fn batch(&mut self, now_us: u64, takes_us: u64) -> u64 {
        let Some(free_us) = self.threads_us.iter_mut().min() else {
            return now_us;
        };
        *free_us = now_us.max(*free_us) + takes_us;
        *free_us
    }

    /// Executes requests that waited for a container that has started.
    fn serve_waiting(&mut self, now_us: u64) {
        for function in 0..self.functions.len() {
            let Some(known) = self.functions.get_mut(function) else {
                continue;
            };
            if let Container::Ready { gpu, .. } = known.container {
                for number in std::mem::take(&mut known.waiting) {
                    self.execute(now_us, number, gpu, true);
                }
            }
        }
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
        let end_us = now_us.max(*free_us) + kind.infer_us;
        *free_us = end_us;
        self.records.add(Record {
            latency_us: Some(end_us - request.arrived_us),
            service_us: kind.infer_us,
            missed,
            ..Record::refused(request)
        });
        let function = request.function as usize;
        let last_us = now_us;
        self.set(function, Container::Ready { gpu, last_us });
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
        kind.map_or(0, |(_, kind)| self.setting.container_mb(kind))
    }

    /// Counts requests whose function never got memory.
    fn refuse_the_rest(&mut self) {
        let waiting = self.functions.iter().flat_map(|function| &function.waiting);
        for request in waiting.filter_map(|&number| self.requests.get(number)) {
            self.records.add(Record::refused(request));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_between_two_values_in_proportion() {
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(percentile(&[7], 99), Some(7));
        assert_eq!(percentile(&[10, 20], 50), Some(15));
        let values: Vec<u64> = (0..=100).map(|value| value * 10).collect();
        assert_eq!(percentile(&values, 99), Some(990));
        // 0.99 * 4 = 3.96: almost the longest, and shorter than it.
        assert_eq!(percentile(&[0, 0, 0, 0, 100], 99), Some(96));
    }
}
