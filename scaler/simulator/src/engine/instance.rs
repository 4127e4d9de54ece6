//! Instances: a bounded queue, threads, and batches that wait to be filled.

use std::collections::VecDeque;

use tetris_scaler_core::Configuration;

/// A request on its way through an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) application: usize,
    /// The stage that it is in.
    pub(super) stage: usize,
    /// When it came to the application, in microseconds.
    pub(super) arrived_us: u64,
    /// The sum of the objectives of its functions so far.
    pub(super) allowed_us: u64,
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Ready,
    /// Takes no more requests, and goes when it has done those that it has.
    Draining,
    Gone,
}

/// An instance of a function.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) function: usize,
    pub(super) node: usize,
    /// Index in the function's profile.
    pub(super) index: usize,
    pub(super) configuration: Configuration,
    pub(super) phase: Phase,
    /// Threads that work.
    pub(super) busy: u32,
    /// Requests that work.
    pub(super) in_work: u64,
    queue: VecDeque<(u64, Job)>,
    /// Requests taken since the scaler last looked.
    pub(super) taken: u64,
    /// It goes when what replaces it is ready.
    pub(super) retiring: bool,
}

/// What an instance does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A thread takes these.
    Work(Vec<Job>),
    /// Looks again at that moment, in microseconds.
    Wait(u64),
    /// Nothing until something happens.
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

    /// Requests in work and waiting.
    pub(super) fn outstanding(&self) -> u64 {
        self.in_work + self.queue.len() as u64
    }

    /// How long it takes to work that off, in microseconds: what load balancing goes by.
    pub(super) fn backlog_us(&self) -> u64 {
        self.outstanding() * self.configuration.latency_us() / self.at_once()
    }

    /// Whether it takes one more: as many may wait as are in work at once.
    pub(super) fn has_room(&self) -> bool {
        self.phase == Phase::Ready && self.outstanding() < 2 * self.at_once()
    }

    pub(super) fn take(&mut self, now_us: u64, job: Job) {
        self.queue.push_back((now_us, job));
        self.taken += 1;
    }

    /// A batch is started by an idle thread when it is full, or when its oldest request has waited for
    /// as long as a batch takes: then it is done within twice that, constraint (3).
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

    /// `count` requests are done, and their thread is idle again.
    pub(super) fn done(&mut self, count: usize) {
        self.busy = self.busy.saturating_sub(1);
        self.in_work = self.in_work.saturating_sub(count as u64);
    }

    /// Requests that it works on at once.
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
    };

    fn instance(batch: u32, concurrency: u32) -> Instance {
        let spec = ConfigurationSpec {
            cpu_millis: 1,
            own_bytes: 1,
            shared_bytes: 0,
            batch,
            concurrency,
            latency_us: 100,
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
