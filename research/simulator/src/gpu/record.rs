//! Records of a run.

use tetris_scaler_dispatch::gpu::{Assignment, GpuId, GpuRequest};

/// The end of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Function of the request.
    pub function: u32,
    /// Time of the arrival, in microseconds.
    pub arrived_us: u64,
    /// Time of the deadline, in microseconds.
    pub deadline_us: Option<u64>,
    /// Time from the arrival to the result, in microseconds; nothing for a refused request.
    pub latency_us: Option<u64>,
    /// Time from the dispatch to the result, in microseconds.
    pub service_us: u64,
    /// True if the model had to be loaded.
    pub missed: bool,
    /// True if the model had to be loaded while another GPU had it.
    pub false_miss: bool,
}

impl Record {
    pub(super) fn served(assignment: &Assignment, given_us: u64, now_us: u64) -> Self {
        let request = &assignment.request;
        let load = assignment.load.as_ref();
        Self {
            latency_us: Some(now_us - request.arrived_us),
            service_us: now_us - given_us,
            missed: load.is_some(),
            false_miss: load.is_some_and(|load| load.elsewhere),
            ..Self::refused(request)
        }
    }

    pub(super) const fn refused(request: &GpuRequest) -> Self {
        Self {
            function: request.function,
            arrived_us: request.arrived_us,
            deadline_us: request.deadline_us,
            latency_us: None,
            service_us: 0,
            missed: false,
            false_miss: false,
        }
    }

    /// Returns true if the result came within the deadline, or there is none.
    pub fn is_in_time(&self) -> bool {
        let late = |latency: u64| {
            let done = self.arrived_us.saturating_add(latency);
            self.deadline_us.is_some_and(|deadline| done > deadline)
        };
        self.latency_us.is_some_and(|latency| !late(latency))
    }
}

/// Records of all requests, and sums over the run.
#[derive(Clone, Debug, Default)]
pub struct GpuRecords {
    /// Ends of requests, in their order.
    pub requests: Vec<Record>,
    /// Time that each GPU loaded or executed, in microseconds.
    pub busy_us: Vec<u64>,
    /// Time of all GPUs in inferences, without loads, in microseconds.
    pub infer_us: u64,
    /// Bytes from the host.
    pub host_bytes: u64,
    /// Bytes from other GPUs.
    pub peer_bytes: u64,
    /// Copies of the watched model, times microseconds.
    copies_us: u128,
    start_us: Option<u64>,
    at_us: u64,
}

impl GpuRecords {
    pub(super) fn new(gpus: usize) -> Self {
        Self {
            busy_us: vec![0; gpus],
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, record: Record) {
        self.requests.push(record);
    }

    pub(super) fn busy(&mut self, gpu: GpuId, us: u64) {
        if let Some(busy) = self.busy_us.get_mut(gpu.0 as usize) {
            *busy += us;
        }
    }

    pub(super) const fn load(&mut self, bytes: u64, from_host: bool) {
        if from_host {
            self.host_bytes += bytes;
        } else {
            self.peer_bytes += bytes;
        }
    }

    /// Counts the copies of the watched model since the last event.
    pub(super) fn pass(&mut self, now_us: u64, copies: usize) {
        if self.start_us.is_none() {
            self.start_us = Some(now_us);
            self.at_us = now_us;
        }
        self.copies_us += u128::from(now_us.saturating_sub(self.at_us)) * copies as u128;
        self.at_us = now_us;
    }

    /// Time of all GPUs in inferences, in 10,000 of the time from the first event to the last.
    pub fn use_per_10000(&self) -> u64 {
        let all_us = u128::from(self.passed_us()) * self.busy_us.len() as u128;
        let used = u128::from(self.infer_us) * 10_000 / all_us.max(1);
        u64::try_from(used).unwrap_or(u64::MAX)
    }

    fn passed_us(&self) -> u64 {
        self.at_us.saturating_sub(self.start_us.unwrap_or(0))
    }

    /// Mean number of copies of the watched model, in thousandths.
    pub fn copies_milli(&self) -> u64 {
        let milli = self.copies_us * 1_000 / u128::from(self.passed_us().max(1));
        u64::try_from(milli).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_gpus_is_their_time_in_inference_of_the_time_that_has_passed() {
        let mut records = GpuRecords::new(4);
        assert_eq!(records.use_per_10000(), 0);
        records.pass(1_000_000, 0);
        // Two inferences of 1.5 s, one behind a load that does not count.
        records.busy(GpuId(0), 1_500_000);
        records.busy(GpuId(1), 4_000_000);
        records.infer_us += 2 * 1_500_000;
        records.pass(6_000_000, 0);
        // 3 s of 4 GPUs in 5 s.
        assert_eq!(records.use_per_10000(), 1_500);
    }
}
