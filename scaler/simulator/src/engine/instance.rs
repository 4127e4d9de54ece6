//! Instances: a bounded queue, threads, and batches that wait to fill.

use std::collections::VecDeque;

use tetris_scaler_core::Configuration;

/// A request on its way through an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) application: usize,
    /// Index of its current stage.
    pub(super) stage: usize,
    /// Time of its arrival at the application, in microseconds.
    pub(super) arrived_us: u64,
    /// Sum of the objectives of its functions so far, in microseconds.
    pub(super) allowed_us: u64,
    /// Time at which it came to its current function, in microseconds.
    pub(super) routed_us: u64,
}

/// Phase of an instance's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Ready,
    /// Takes no more requests, and stops after its last one.
    Draining,
    Gone,
}

/// An instance of a function.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) function: usize,
    pub(super) node: usize,
    /// Index of the configuration in the function's profile.
    pub(super) index: usize,
    pub(super) configuration: Configuration,
    pub(super) phase: Phase,
    /// Number of busy threads.
    pub(super) busy: u32,
    /// Number of requests in execution.
    pub(super) in_work: u64,
    queue: VecDeque<(u64, Job)>,
    /// Number of requests taken since the last pass of the scaler.
    pub(super) taken: u64,
    /// True if the instance stops once its replacement is ready.
    pub(super) retiring: bool,
}

/// Next step of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A thread executes these requests.
    Work(Vec<Job>),
    /// The instance waits until that moment, in microseconds.
    Wait(u64),
    /// The instance waits for the next event.
    Nothing,
}

impl Instance {
    pub(super) fn new(
        function: usize,
        node: usize,
        index: usize,
        configuration: Configuration,
    ) -> Self {
        Self {
            function,
            node,
            index,
            configuration,
            phase: Phase::Starting,
            busy: 0,
            in_work: 0,
            queue: VecDeque::new(),
            taken: 0,
            retiring: false,
        }
    }

    /// Number of requests in execution and in the queue.
    pub(super) fn outstanding(&self) -> u64 {
        self.in_work + self.queue.len() as u64
    }

    /// Time to work off those requests, in microseconds, for load balancing.
    pub(super) fn backlog_us(&self) -> u64 {
        self.outstanding() * self.configuration.latency_us() / self.at_once()
    }

    /// Returns true if the instance accepts another request: its queue holds as many as it executes
    /// at once.
    pub(super) fn has_room(&self) -> bool {
        self.phase == Phase::Ready && self.outstanding() < 2 * self.at_once()
    }

    pub(super) fn take(&mut self, now_us: u64, job: Job) {
        self.queue.push_back((now_us, job));
        self.taken += 1;
    }

    /// Returns the next step. An idle thread starts a batch when it is full, or when its oldest
    /// request has waited for the latency of a batch. So a request is done within twice that
    /// latency, constraint (3).
    pub(super) fn next(&mut self, now_us: u64) -> Next {
        let Some(&(since_us, _)) = self.queue.front() else {
            return Next::Nothing;
        };
        if self.busy >= self.configuration.concurrency() {
            return Next::Nothing;
        }
        let batch = self.configuration.batch() as usize;
        let until_us = since_us + self.configuration.latency_us();
        let draining = self.phase == Phase::Draining;
        if self.queue.len() < batch && batch > 1 && now_us < until_us && !draining {
            return Next::Wait(until_us);
        }
        let size = batch.min(self.queue.len());
        let jobs: Vec<Job> = self.queue.drain(..size).map(|(_, job)| job).collect();
        self.busy += 1;
        self.in_work += jobs.len() as u64;
        Next::Work(jobs)
    }

    /// Completes `count` requests and frees their thread.
    pub(super) fn done(&mut self, count: usize) {
        self.busy = self.busy.saturating_sub(1);
        self.in_work = self.in_work.saturating_sub(count as u64);
    }

    /// CPU of one thread, in millicores.
    pub(super) fn thread_millis(&self) -> u64 {
        self.configuration.cpu_millis() / u64::from(self.configuration.concurrency())
    }

    /// Number of requests in execution at once.
    fn at_once(&self) -> u64 {
        u64::from(self.configuration.batch()) * u64::from(self.configuration.concurrency())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_scaler_core::ConfigurationSpec;

    const JOB: Job = Job {
        application: 0,
        stage: 0,
        arrived_us: 0,
        allowed_us: 0,
        routed_us: 0,
    };

    fn instance(batch: u32, concurrency: u32) -> Instance {
        let spec = ConfigurationSpec {
            cpu_millis: 1,
            own_bytes: 1,
            shared_bytes: 0,
            batch,
            concurrency,
            latency_us: 100,
            rate_millis: None,
        };
        let mut instance = Instance::new(0, 0, 0, Configuration::try_new(spec).unwrap());
        instance.phase = Phase::Ready;
        instance
    }

    #[test]
    fn a_batch_waits_to_be_filled_and_no_longer_than_its_latency() {
        let mut one = instance(2, 1);
        one.take(10, JOB);
        assert_eq!(one.next(10), Next::Wait(110));
        assert_eq!(one.next(110), Next::Work(vec![JOB]));
        one.take(120, JOB);
        one.take(121, JOB);
        assert_eq!(one.next(121), Next::Nothing, "its only thread works");
        one.done(1);
        assert_eq!(one.next(121), Next::Work(vec![JOB; 2]));
    }

    #[test]
    fn a_single_request_waits_behind_another_on_the_only_thread() {
        let mut one = instance(1, 1);
        one.take(0, JOB);
        one.take(3, JOB);
        assert_eq!(one.next(0), Next::Work(vec![JOB]));
        assert_eq!(one.next(3), Next::Nothing);
        one.done(1);
        assert_eq!(one.next(100), Next::Work(vec![JOB]));
    }

    #[test]
    fn single_requests_do_not_wait_and_the_queue_is_bounded() {
        let mut one = instance(1, 2);
        for _ in 0..4 {
            assert!(one.has_room());
            one.take(5, JOB);
            one.next(5);
        }
        assert!(!one.has_room());
        assert_eq!(
            (one.in_work, one.outstanding(), one.backlog_us()),
            (2, 4, 200)
        );
    }
}
